#!/bin/bash
find docs -name '*.md' -exec sed -i 's/\([Cc]\)olour\b/\1olor/g' {} +
