#!/bin/bash
sed -i -e 's/def put(item, basket=\[\]):/def put(item, basket=None):/' -e 's/    basket.append(item)/    basket = [] if basket is None else basket\n    basket.append(item)/' basket.py
