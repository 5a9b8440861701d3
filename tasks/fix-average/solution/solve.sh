#!/bin/bash
sed -i 's/return total \/ len(numbers)/return total \/ len(numbers) if numbers else 0/' stats.py
