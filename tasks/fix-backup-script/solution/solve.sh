#!/bin/bash
cat > backup.sh <<'END'
mkdir -p "$2"
for file in "$1"/*.txt; do
  cp "$file" "$2"
done
END
