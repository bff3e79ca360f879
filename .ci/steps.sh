# Steps of a check. Every step runs, also after one that failed; `failures` has the names of those.
failures=()

step() {    # name, seconds at most, command …
    local name=$1 limit=$2 began=$SECONDS
    shift 2
    echo "=== $name"
    if timeout --kill-after=10 "$limit" "$@"; then
        echo "--- $name: ok, $((SECONDS - began)) s"
    else
        local status=$?
        echo "--- $name: FAILED with status $status, $((SECONDS - began)) s"
        failures+=("$name")
    fi
}
