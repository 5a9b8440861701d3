import unittest

from ranges import sum_range


class SumRange(unittest.TestCase):
    def test_both_ends_count(self):
        self.assertEqual(sum_range(1, 4), 10)

    def test_one_number(self):
        self.assertEqual(sum_range(7, 7), 7)
