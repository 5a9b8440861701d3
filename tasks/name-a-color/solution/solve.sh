#!/bin/bash
echo blue > answer.txt
