# A fleet with two hubs on one PostgreSQL: see TestSeveralHubs. $W is a directory, $DB the
# database; linerate is in the path.
mount -t tmpfs none /run && mkdir /run/netns
mount -t tmpfs -o mode=755 none /mnt && mkdir $W/out
ip link add name lan0 type bridge && ip link set lan0 up
for i in 1 2 3 4 5; do
	ip netns add h$i && ip link add v$i type veth peer name e0 netns h$i && ip link set v$i master lan0 up
	ip -n h$i addr add 10.77.0.$i/24 dev e0 && ip -n h$i link set lo up && ip -n h$i link set e0 up
done
hub() { ip netns exec h$1 $2 linerate hub --db "$DB" --state /mnt/h$1 --host 10.77.0.4,10.77.0.5 --rounds 60 >> $W/out/hub$1 2>&1 & eval hub$1=$!; }
agent() { ip netns exec h$1 linerate agent --state /mnt/h$1 --name h$1 --hub $2 --max-share 100% --max-rate 80mbit >> $W/out/h$1 2>&1 & eval h$1=$!; }
fleet() { ip netns exec h5 linerate fleet --hub @/mnt/h4/hub/operate.link "$@"; }
till() { i=0; until eval "$1" >/dev/null; do [ $((i += 1)) -lt 3000 ] || { echo "never: $1" >&2; exit 1; }; sleep 0.1; done; }
trap 'kill -9 $hub4 $hub5 $h1 $h2 $h3 2>/dev/null || true' EXIT
linerate hub --init --state /mnt/h4 --host 10.77.0.4,10.77.0.5 > $W/out/init
mkdir /mnt/h5 && cp -r /mnt/h4/hub /mnt/h5 && chown -R 65532 /mnt/h5 # as in a container
mount --bind /mnt/h5/hub /mnt/h5/hub && mount -o remount,bind,ro /mnt/h5/hub
hub 4
till "grep -q 'run this on each host' $W/out/hub4"
ip netns exec h5 linerate hub --db "$DB" --state /mnt/other > $W/out/other 2>&1 || true
hub 5 'setpriv --reuid 65532 --regid 65532 --clear-groups'
till "grep -q 'run this on each host' $W/out/hub5"
agent 1 @/mnt/h4/hub/join.link; agent 2 @/mnt/h4/hub/join.link
till "fleet matrix | grep 'h2 sends *[0-9]'"
fleet invite --uses 1 > $W/out/invite 2>&1
link=$(sed -n 's/^linerate agent --hub //p' $W/out/invite)
kill -9 $hub4
agent 3 $link
till "fleet matrix > $W/out/matrix && grep 'h3 sends' $W/out/matrix && ! grep -F '?' $W/out/matrix"
ip netns exec h4 linerate agent --state /mnt/late --name late --hub $link > $W/out/late 2>&1 || true
hub 4
till "ip netns exec h4 linerate fleet matrix --state /mnt/h4 > $W/out/matrix4 && grep 'h3 sends' $W/out/matrix4 && ! grep -F '?' $W/out/matrix4"
fleet --json > $W/out/json
