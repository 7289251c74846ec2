#!/bin/sh
# SPDX-License-Identifier: MIT
# Two hosts, made of network namespaces with a cable between them, train one model over TCP; in the middle the cable is
# cut. The job must end by itself in bounded time, with a sentence and a checkpoint that is whole, and the run must go on
# on one host. As root:
#
#     sh tests/outside/netns_cut.sh build/release/sia
set -u
sia=$(realpath "${1:?want the program}")
timeout_seconds=${SIA_TIMEOUT:-5}
most=${SIA_MOST:-60} # seconds from the cut to the end of the job
work=$(mktemp -d)
names="siahost1 siahost2"

clean() {
    for name in $names; do
        for process in $(ip netns pids $name 2>/dev/null); do kill -9 "$process" 2>/dev/null; done
        ip netns del $name 2>/dev/null
    done
    rm -rf "$work"
}
trap clean EXIT
fail() { echo "FAILED: $*" >&2; [ -f "$work/said" ] && tail -n 20 "$work/said" >&2; exit 1; }
last_step() { sed -n 's/^{"step":\([0-9]*\),"loss".*/\1/p' "$work/run/metrics.jsonl" 2>/dev/null | tail -n 1; }
newest() { ls -d "$work"/run/step-* 2>/dev/null | tail -n 1; }

# ------------------------------------------------------------------------------------------------ two hosts
for name in $names; do ip netns add $name || fail "no network namespaces here"; done
ip link add siacable1 netns siahost1 type veth peer name siacable2 netns siahost2 || fail "no cable"
ip -n siahost1 addr add 10.77.0.1/24 dev siacable1
ip -n siahost2 addr add 10.77.0.2/24 dev siacable2
for i in 1 2; do
    ip -n siahost$i link set lo up
    ip -n siahost$i link set siacable$i up
    # The ranks give up by --timeout. mpirun and its daemons only hear of it from TCP, which by itself tries for a
    # quarter of an hour (docs/cluster.md).
    ip netns exec siahost$i sysctl -q -w net.ipv4.tcp_retries2=3
done

# What mpirun takes for ssh: HOST COMMAND...
cat >"$work/to_host" <<'END'
#!/bin/sh
case $1 in 10.77.0.2) host=siahost2 ;; 10.77.0.1) host=siahost1 ;; *) exit 1 ;; esac
shift
exec ip netns exec $host sh -c "$*"
END
chmod +x "$work/to_host"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

start() { # on both hosts
    cd "$work" && exec ip netns exec siahost1 mpirun --host 10.77.0.1:1,10.77.0.2:1 -n 2 --bind-to none \
        --mca plm_rsh_agent "$work/to_host" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca oob_tcp_if_include 10.77.0.0/24 --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 1 \
        --mca oob_tcp_keepalive_probes 3 "$sia" train --out "$work/run" --steps 2000 --layers 2 --width 64 \
        --heads 2 --train-len 64 --batch 4 --vocabulary 512 --log-every 1 --save-every 10 --threads 1 \
        --timeout "$timeout_seconds" --resume auto
}

# ------------------------------------------------------------------------------------------------ the cut
(start) >"$work/said" 2>&1 &
job=$!
waited=0
until [ "$(last_step || true)" ] && [ "$(last_step)" -ge 30 ]; do
    kill -0 $job 2>/dev/null || fail "the job ended before step 30"
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 1200 ] || fail "no step 30 in two minutes"
done
grep -q "on each of 2 ranks" "$work/said" || fail "not two ranks"
ip -n siahost2 link set siacable2 down
cut=$(date +%s)
echo "cut at step $(last_step)"
while kill -0 $job 2>/dev/null; do
    [ $(($(date +%s) - cut)) -lt "$most" ] || fail "the job still runs $most s after the cut"
    sleep 0.2
done
wait $job
code=$?
echo "ended $(($(date +%s) - cut)) s after the cut, exit code $code, at step $(last_step)"
[ $code -ne 0 ] || fail "exit code 0"
grep "^sia: " "$work/said" || echo "(mpirun ended it: $(grep -m 1 -i "lost\|daemon\|abort" "$work/said"))"

# What was left on the host that was cut off ends as well.
left=$(ip netns pids siahost2 | wc -l)
until [ "$left" -eq 0 ]; do
    [ $(($(date +%s) - cut)) -lt "$most" ] || fail "$left processes are left on the other host: $(ip netns pids siahost2)"
    sleep 0.5
    left=$(ip netns pids siahost2 | wc -l)
done
echo "nothing is left on either host after $(($(date +%s) - cut)) s"

# ------------------------------------------------------------------------------------------------ going on
saved=$(newest)
[ "$saved" ] || fail "no checkpoint"
from=$(last_step)
"$sia" eval "$saved" --tokenizer "$work/run/tokenizer.json" --data "$0" --join --lengths 64 --windows 1 --quiet >/dev/null ||
    fail "$saved is not whole"
"$sia" train --out "$work/run" --threads 1 --resume auto >"$work/alone" 2>&1 &
alone=$!
waited=0
until [ "$(last_step)" -gt $((from + 20)) ]; do
    kill -0 $alone 2>/dev/null || { cat "$work/alone"; fail "it did not go on"; }
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 600 ] || fail "it did not go on in a minute"
done
grep "continues from step" "$work/alone" || fail "it began anew"
kill -TERM $alone
wait $alone
[ $? -eq 130 ] || fail "it was not stopped in order"
echo "passed: the run goes on on one host, from $(basename "$saved")"
