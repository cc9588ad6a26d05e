#!/bin/sh
# A Codex without a model: it speaks app-server as 0.169.0 does and keeps a rollout. What a message says in [[…]] is what happens
# in its turn. Each turn that ends well is a line of $HOME/turns, each start one of $HOME/starts.
day=$HOME/.codex/sessions/2026/11/26
mkdir -p "$day"
thread='' turn='' n=0 mode=''

say() { printf '%s\n' "$1"; }
field() { printf '%s\n' "$line" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
result() { say "{\"id\":\"$(field id)\",\"result\":$1}"; }
keep() { printf '%s\n' "{\"type\":\"event_msg\",\"payload\":{\"turn_id\":\"$turn\",$1}}" >>"$rollout"; }
tells() { say "{\"method\":\"$1\",\"params\":{\"threadId\":\"$thread\",\"turnId\":\"$turn\",$2}}"; }
enter() {
  thread=$1
  rollout=$day/rollout-2026-11-26T00-00-00-$thread.jsonl
  printf '%s %s\n' "$2" "$thread" >>"$HOME/starts"
  result "{\"thread\":{\"id\":\"$thread\"},\"model\":\"m\"}"
}
ends() {
  tells turn/completed "\"turn\":{\"id\":\"$turn\",$1}"
  keep "\"type\":\"task_complete\",\"error\":$2"
  turn=''
}
# One line that is no message: whatever it asks is answered, in a turn or not.
control() {
  case $line in
  *'"method":"initialize"'*) result '{"userAgent":"codex/fake x"}' ;;
  *'"method":"config/read"'*) result '{"config":{"model":"m"}}' ;;
  *'"method":"thread/start"'*) enter "$(cat /proc/sys/kernel/random/uuid)" start ;;
  *'"method":"thread/resume"'*) enter "$(field threadId)" resume ;;
  *'"method":"thread/turns/list"'*) result '{"data":[]}' ;;
  *'"method":"turn/steer"'*)
    printf '%s\n' "$line" >>"$HOME/steers"
    result "{\"turnId\":\"$turn\"}"
    takes
    ;;
  *'"method":"turn/interrupt"'*)
    result '{}'
    [ -z "$turn" ] || ends '"status":"interrupted"' null
    ;;
  *'"id":'*'"method":'*) result '{}' ;;
  *) return 1 ;;
  esac
}
# A message is in the turn for good.
takes() {
  key=$(field clientUserMessageId)
  keep "\"type\":\"item_completed\",\"item\":{\"type\":\"UserMessage\",\"client_id\":\"$key\"}"
  tells item/completed "\"item\":{\"type\":\"userMessage\",\"id\":\"i-$key\",\"clientId\":\"$key\",\"content\":[]}"
}

while IFS= read -r line; do
  case $line in
  *'"method":"turn/start"'*) ;;
  *) control; continue ;;
  esac
  message=$line
  n=$((n + 1))
  turn=$$-$n
  result "{\"turn\":{\"id\":\"$turn\"}}"
  tells turn/started "\"turn\":{\"id\":\"$turn\"}"
  takes
  case $message in
  *'[[busy]]'*)
    if [ ! -e "$HOME/free" ]; then
      ends '"status":"failed","error":{"message":"busy","codexErrorInfo":"rateLimitExceeded"}' '"busy"'
      continue
    fi
    ;;
  *'[[asks]]'*)
    say "{\"id\":0,\"method\":\"item/commandExecution/requestApproval\",\"params\":{\"threadId\":\"$thread\",\"turnId\":\"$turn\",\"itemId\":\"c\",\"command\":\"rm -rf build\"}}"
    while IFS= read -r line; do
      case $line in *'"decision":'*) break ;; esac
      control
    done
    printf '%s\n' "$line" >>"$HOME/answers"
    tells serverRequest/resolved '"requestId":0'
    ;;
  *'[[mute]]'*)
    # Its end is written down and not said.
    tells item/agentMessage/delta '"delta":"x"'
    keep '"type":"task_complete","error":null'
    printf '%s\n' "$message" >>"$HOME/turns"
    : >"$HOME/muted"
    while [ ! -e "$HOME/heard" ]; do sleep 0.05; done
    ;;
  *'[[slow]]'*)
    tells item/agentMessage/delta '"delta":"x"'
    while [ ! -e "$HOME/gate" ]; do sleep 0.05; done
    ;;
  *'[[gate]]'*)
    tells item/agentMessage/delta '"delta":"x"'
    while [ ! -e "$HOME/gate" ] && [ -n "$turn" ]; do
      IFS= read -r line || exit 0
      control
    done
    [ -n "$turn" ] || continue
    ;;
  esac
  tells item/completed '"item":{"type":"agentMessage","id":"a","text":"Done."}'
  tells thread/tokenUsage/updated '"tokenUsage":{"total":{"totalTokens":1000,"inputTokens":900,"outputTokens":100},"last":{"totalTokens":47500,"inputTokens":900,"outputTokens":100},"modelContextWindow":190000}'
  printf '%s\n' "$message" >>"$HOME/turns"
  ends '"status":"completed"' null
done
