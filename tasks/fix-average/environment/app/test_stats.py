import unittest

from stats import average


class Average(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(average([1, 2, 6]), 3)

    def test_nothing(self):
        self.assertEqual(average([]), 0)
