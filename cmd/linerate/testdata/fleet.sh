# A fleet in namespaces of its own: see TestFleet. $W is a directory, linerate is in the path.
mount -t tmpfs none /run && mkdir /run/netns
mount -t tmpfs -o mode=755 none /mnt # $W is a private folder, which an agent that gives up root cannot pass
mkdir /mnt/hub $W/out && mount -t tmpfs -o size=3m,mode=755 none /mnt/hub
ip link add name lan0 type bridge && ip link set lan0 up
for i in 1 2 3 4; do
	ip netns add h$i && ip link add v$i type veth peer name e0 netns h$i && ip link set v$i master lan0 up
	ip -n h$i addr add 10.77.0.$i/24 dev e0 && ip -n h$i link set lo up && ip -n h$i link set e0 up
done
hub() { ip netns exec h4 linerate hub --state /mnt/hub --rounds 60 --metrics :9101 >> $W/out/hub 2>&1 & hub=$!; }
agent() { ip netns exec h$1 linerate agent --state /mnt/h$1 --name h$1 --hub @/mnt/hub/hub/join.link --max-share 100% --max-rate 80mbit >> $W/out/h$1 2>&1 & eval h$1=$!; }
fleet() { ip netns exec h4 linerate fleet --hub @/mnt/hub/hub/view.link "$@"; }
till() { i=0; until eval "$1" >/dev/null; do [ $((i += 1)) -lt 3000 ] || { echo "never: $1" >&2; exit 1; }; sleep 0.1; done; }
seen() { cat $W/out/h? | grep -c "$1" || true; }
spooled() { ls /mnt/h?/fleet/*.json 2>/dev/null; }
trap 'kill -9 $hub $h1 $h2 $h3 2>/dev/null || true' EXIT
hub
till "grep -q 'metrics on' $W/out/hub"
agent 1; agent 2; agent 3
till '[ $(seen "^session.*begins") -ge 1 ]'
near=$(spooled | cut -c7); eval kill -9 \$h$near
till "! ip netns exec h$near ss -Htln | grep :5299" # it has gone
agent $near
till '[ $(seen "^session.*begins") -ge 2 ]'
kill -9 $hub
till '[ $(seen "^look with.*runs") -ge 1 ]'
hub
till '[ $(seen "^session.*begins") -ge 3 ]'
n=$(seen '^look with.*runs')
dd if=/dev/zero of=/mnt/hub/fill bs=4k 2>/dev/null || true
till '[ $(seen "^look with.*runs") -gt $n ] && fleet > $W/out/full && grep "nothing can be stored" $W/out/full && spooled'
cat $(spooled) > $W/out/spool
rm /mnt/hub/fill
till "grep -q 'stored again' $W/out/hub && fleet matrix > $W/out/matrix && ! grep -F '?' $W/out/matrix && ! spooled"
operate() { ip netns exec h4 linerate fleet "$@" --state /mnt/hub; }
echo '{groups: [{hosts: [h1], max_rate: 50mbit}], shared: [{name: up, between: [h1, "h*"], at_once: 1}]}' | operate apply - > $W/out/applied
for view in '' matrix 'matrix --metric rtt' 'matrix --metric loss' queue plan; do echo "== $view"; fleet $view; done > $W/out/views
fleet --json > $W/out/json
ip netns exec h4 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9101; printf "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n" >&3; cat <&3' > $W/out/metrics
till '! spooled' # nothing is being measured or waits
n=$(seen '^look with.*runs')
{ operate invite --for 1h 2>&1; operate drain h1 --for 1h; till "grep 'drained this host' $W/out/h1"; operate test h1 h2 2>&1 || true; fleet drain h2 2>&1 || true
operate test h2 h3; till '[ $(seen "^look with.*runs") -gt $n ] && ! spooled'; operate resume h1; operate remove h3; fleet; } > $W/out/operator
till "grep 'was removed' $W/out/h3"
kill -9 $h1 $h2; kill $hub; wait $hub || true
cp /mnt/hub/hub/hub.db* $W/out
