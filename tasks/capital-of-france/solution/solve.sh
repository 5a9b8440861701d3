#!/bin/bash
echo Paris > answer.txt
