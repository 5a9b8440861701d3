#!/bin/bash
echo hello > answer.txt
