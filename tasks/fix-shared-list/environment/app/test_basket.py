import unittest

from basket import fill, put


class Basket(unittest.TestCase):
    def test_each_item_has_its_own(self):
        self.assertEqual(fill(["tea", "milk"]), [["tea"], ["milk"]])

    def test_a_given_basket_is_used(self):
        self.assertEqual(put("tea", ["milk"]), ["milk", "tea"])
