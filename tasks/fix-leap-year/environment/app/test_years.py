import unittest

from years import is_leap


class Leap(unittest.TestCase):
    def test_rule(self):
        self.assertTrue(is_leap(2024))
        self.assertFalse(is_leap(1900))
        self.assertTrue(is_leap(2000))
