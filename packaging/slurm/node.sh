# SPDX-License-Identifier: Apache-2.0
# What prolog and epilog share. zerogauge.conf next to slurm.conf, where there is one, is bash that gives these
# variables other values.
# shellcheck shell=bash disable=SC2034
PATH=${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}
zerogauge=zerogauge         # the program
options=(--seconds 10)      # of preflight before a job
after_options=(--seconds 0) # of preflight after a job; 0: one round of operations
limit_s=120                 # a preflight that takes longer has failed
drain_on_counters=no        # yes: after a job, a node whose kernel counted errors meanwhile is drained
states=/run/zerogauge       # what the kernel had counted when a job began

# preflight OPTION...: sets status, and report to what the program prints.
preflight()
{
    status=0
    report=$(timeout --kill-after 5 "$limit_s" "$zerogauge" preflight "$@" 2>&1) || status=$?
    [ "$status" -lt 124 ] || report="zerogauge preflight ended with status $status, or after $limit_s s: $report"
}

# Prints the checks that failed in one line, or what else the program said last.
reason()
{
    local failed report=$report
    failed=$(sed -n 's/^FAIL [^:]*: //p' <<<"$report" | paste -sd '|' | sed 's/|/; /g')
    report=${failed:-$(tail -n 1 <<<"$report")}
    cut -c1-300 <<<"${report#zerogauge preflight: }"
}

# drain REASON: the node ends what runs on it and gets no new job until someone resumes it.
drain()
{
    scontrol update "NodeName=$node" State=DRAIN "Reason=zerogauge: $1"
}

conf=$(dirname "${SLURM_CONF:-/etc/slurm/slurm.conf}")/zerogauge.conf
# shellcheck source=/dev/null
if [ -e "$conf" ] && ! . "$conf"; then
    drain "$conf: bash cannot read it"
    exit 1
fi
