#!/bin/bash
sed -i 's/and year % 100 != 0/and (year % 100 != 0 or year % 400 == 0)/' years.py
