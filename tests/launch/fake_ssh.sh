#!/bin/sh
# As ssh with a key: takes ssh's options, a host and one command, and runs the command by a shell with a clean
# environment, in the root folder, in a session that does not end with this process. Hosts: "down..." does not answer,
# "mute..." never runs the command, "late..." writes its standard input to the file $FAKE_TASK and runs the command when
# the file $FAKE_TASK.go is there, "bare..." has no anello, "stale..." has another version; every other name works.
while :; do
  case $1 in
    -o | -F | -p) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
elsewhere=$(printf %s "$*" | sed "s#/[^ ']*/anello#/nowhere/anello#")
path=/usr/bin:/bin
command=$*
case $host in
  down*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
  mute*) exec sleep 300 ;;
  late*)
    cat >"$FAKE_TASK.part" && mv "$FAKE_TASK.part" "$FAKE_TASK"
    until [ -e "$FAKE_TASK.go" ]; do sleep 0.02; done
    exec <"$FAKE_TASK"
    ;;
  bare*) command=$elsewhere ;;
  stale*) command=$elsewhere path=$FAKE_STALE:$path ;;
esac
cd / || exit 255
exec 3<&0
# ssh does not pass TEST_MARK on: tests use it to find processes that are left.
setsid env -i HOME=/ PATH="$path" SHELL=/bin/sh FAKE_HOST="$host" TEST_MARK="$TEST_MARK" \
  SSH_CONNECTION="127.0.0.1 50000 127.0.0.1 22" /bin/sh -c "$command" <&3 3<&- &
exec 3<&-
wait $!
