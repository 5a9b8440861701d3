#!/bin/bash
sed -i 's/range(first, last))/range(first, last + 1))/' ranges.py
