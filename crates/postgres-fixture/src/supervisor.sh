# Keeps one server for the process that holds the other end of standard input. That process sends
# commands, one a line; each is answered by `ok` or `failed`. When its end closes, for whatever
# reason, the server is stopped and its folder removed. One thing is done after the other, so there
# is never a program at work in a folder that is being removed.
#
# Arguments: the folder of the programs, the folder to make the server's folder in.

# Only the end of the pipe ends the supervisor: not a terminal's Ctrl-C, and not a failed write of
# an answer.
trap '' HUP INT PIPE TERM

# The variable that carried this text.
unset SUPERVISOR

programs=$1
if ! folder=$(mktemp -d "$2/indelible-pg-XXXXXX" 2>&1); then
    if ! folder=$(mktemp -d /tmp/indelible-pg-XXXXXX 2>&1); then
        echo "failed $folder"
        exit
    fi
fi
# The server's programs do not start in a folder that they may not enter.
cd "$folder" || exit
exec 2>>"$folder/log"
echo "ok $folder"

server=

# A superuser may run programs as the server's account. So the port needs a password; the password
# and the socket are in the folder, which only this account may enter.
make() {
    od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$folder/password"
    "$programs/initdb" --pgdata="$folder/data" --username=postgres \
        --auth-local=trust --auth-host=md5 --pwfile="$folder/password" \
        --encoding=UTF8 --locale="$1" --no-sync </dev/null >>"$folder/log" 2>&1
}

# The server itself writes its process id into the first line of this file, and into the eighth
# whether it takes connections. After a crash the file can be that of another process.
ready() {
    [ "$(sed -n '1p;8p' "$folder/data/postmaster.pid" 2>/dev/null | tr -d ' \n')" = "${server}ready" ]
}

start() {
    [ -z "$server" ] || ! kill -0 "$server" 2>/dev/null || return 0
    "$programs/postgres" -D "$folder/data" -p "$1" </dev/null >>"$folder/log" 2>&1 &
    server=$!
    tries=0
    while [ "$tries" -lt 6000 ]; do
        ready && return 0
        kill -0 "$server" 2>/dev/null || break
        tries=$((tries + 1))
        sleep 0.02
    done
    [ "$tries" -lt 6000 ] || echo "the server takes too long" >>"$folder/log"
    crash
    return 1
}

# As `pg_ctl -m immediate stop`: the server ends at once, with no checkpoint, and recovers when it
# starts again.
crash() {
    [ -n "$server" ] || return 0
    kill -QUIT "$server" 2>/dev/null
    wait "$server"
    server=
}

answer() {
    if "$@"; then echo ok; else echo failed; fi
}

make_any() {
    make C.UTF-8 || make C
}

while read -r command argument; do
    case $command in
        make) answer make_any ;;
        start) answer start "$argument" ;;
        crash) answer crash ;;
        *) echo failed ;;
    esac
done

crash
cd /
# If another process killed the server, its children may still be ending and writing files.
tries=0
until rm -rf "$folder" || [ "$tries" -ge 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
