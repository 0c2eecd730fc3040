#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the node by `zerogauge preflight OPTION...` and says the result in the cluster: the node's condition
# ZerogaugeHealthy (True, False, or Unknown where it could not be found out, with what preflight said) and its label
# zerogauge/healthy (true, false, unknown), by which pods choose nodes. node-health.yaml starts it. Needs NODE_NAME, and
# curl. ZG_API and ZG_ACCOUNT take the place of the cluster's API and of the folder of the pod's service account.
# Exit status: preflight's; 2 where the API did not take the result.
set -u
api=${ZG_API:-https://kubernetes.default.svc} account=${ZG_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}
: "${NODE_NAME:?the name of the node is missing: env with fieldRef spec.nodeName}"

# patch TYPE PATH: sends its input, and prints what the API says against it.
patch()
{
    answer=$(curl -sS --fail-with-body --max-time 60 --cacert "$account/ca.crt" -X PATCH --data-binary @- \
        -H "Authorization: Bearer $(cat "$account/token")" -H "Content-Type: application/$1+json" "$api$2" 2>&1) ||
        { echo "node-health: $2: $answer" >&2 && return 1; }
}

said=$(zerogauge preflight "$@" 2>&1)
result=$?
printf '%s\n' "$said"
case $result in
    0) status=True label=true reason=PreflightPassed ;;
    1) status=False label=false reason=PreflightFailed ;;
    *) status=Unknown label=unknown reason=PreflightDidNotEnd ;;
esac
# The message names the checks that failed, or ends with the last line; it is a string of JSON.
failed=$(printf '%s\n' "$said" | grep '^ *FAIL' || printf '%s\n' "$said" | tail -n 1)
message=$(printf '%s\n' "$failed" | tr -d '\000-\011\013-\037\177' | head -c 1000 |
    sed 's/\\/\\\\/g; s/"/\\"/g' | paste -sd ' ' -)
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
patch strategic-merge-patch "/api/v1/nodes/$NODE_NAME/status" <<JSON || result=2
{"status": {"conditions": [{"type": "ZerogaugeHealthy", "status": "$status", "reason": "$reason",
"message": "$message", "lastHeartbeatTime": "$now", "lastTransitionTime": "$now"}]}}
JSON
patch merge-patch "/api/v1/nodes/$NODE_NAME" <<JSON || result=2
{"metadata": {"labels": {"zerogauge/healthy": "$label"}}}
JSON
exit $result
