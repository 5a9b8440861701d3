#!/bin/bash
mkdir -p site/css site/img
touch site/index.html
