# Runs the commands of a lease one after the other, as the first process of its pod. Each has a folder in
# /drivetrain/runs, with the script `command` and the file `limit` (seconds). Whoever put it there writes its name to the
# pipe `wake`. It is begun once (`began`); its end is in `status`: the exit status, and 1 if its time was up.
# $1: seconds between SIGTERM and SIGKILL.
grace=$1
cd /drivetrain || exit 1
mkdir -p runs /logs/verifier
: >> output
[ -p wake ] || mkfifo wake
trap 'exit 0' TERM

# All processes of the pod but this one. Only the first process of a namespace may do that.
all() {
    if [ $$ = 1 ]; then kill "-$1" -1 2>/dev/null; else kill "-$1" "$child" 2>/dev/null; fi
}

run() {
    /bin/sh "$1/command" >> output 2>&1 < /dev/null &
    child=$!
    (
        trap '' TERM
        sleep "$(cat "$1/limit")"
        : > "$1/late"
        all TERM
        sleep "$grace"
        all KILL
    ) &
    watchdog=$!
    wait "$child"
    status=$?
    all KILL
    kill -KILL "$watchdog" 2>/dev/null
    wait
    late=0
    [ -e "$1/late" ] && late=1
    echo "$status $late" > "$1/ended"
    tail -c 65536 output
    mv "$1/ended" "$1/status"
}

while :; do
    read -r name < wake || continue
    here=/drivetrain/runs/$name
    [ -e "$here/command" ] || continue
    [ -e "$here/began" ] && continue
    : > "$here/began"
    run "$here"
done
