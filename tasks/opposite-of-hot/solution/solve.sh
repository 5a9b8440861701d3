#!/bin/bash
echo cold > answer.txt
