mkdir -p $2
for file in $(ls $1/*.txt); do
  cp $file $2
done
