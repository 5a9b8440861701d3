#!/bin/bash
sed -n 's/^## /- /p' guide.md > contents.md
