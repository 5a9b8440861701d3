#!/bin/bash
echo Bees make honey. > answer.txt
