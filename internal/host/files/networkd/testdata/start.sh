set -e
dir=$1; kernel=$2; networkd=$3; udevadm=$4
ip link set lo up
ip link add $kernel index 11 address 02:00:00:00:00:01 type veth peer name peer1 index 21
ip link add eno2 index 12 address 02:00:00:00:00:02 type veth peer name peer2 index 22
ip link set peer1 up; ip link set peer2 up
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir -p /run/systemd/network /run/udev/data /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
mount -t tmpfs none /etc/systemd/network
mount -t tmpfs none /usr/lib/systemd/network
mount -t tmpfs none /usr/local/lib
for d in etc/systemd/network usr/lib/systemd/network run/systemd/network run/udev/data; do
	[ ! -d "$dir/$d" ] || cp -a "$dir/$d/." /$d
done
chown -R systemd-network: /run/systemd/netif
for l in $kernel eno2; do
	"$udevadm" test-builtin net_setup_link /sys/class/net/$l >/run/udev.$l 2>/run/udev.log.$l
done
name=$(sed -n s/^ID_NET_NAME=//p /run/udev.$kernel)
[ "${name:-$kernel}" = "$kernel" ] || ip link set $kernel name $name
mount -o remount,ro /sys # systemd-networkd waits for no udev then
"$networkd" >/run/networkd.log 2>&1 &
pid=$!
n=0
while [ $n -lt 1200 ]; do
	n=$((n+1)); sleep 0.05
	open=0
	for l in /sys/class/net/*; do
		case $(sed -n s/^ADMIN_STATE=//p /run/systemd/netif/links/$(cat $l/ifindex) 2>/dev/null) in
		configured|unmanaged|failed) ;;
		*) open=1 ;;
		esac
	done
	for f in $(grep -hs ^Name= /run/systemd/network/*.netdev /etc/systemd/network/*.netdev | cut -d= -f2); do
		[ -e /sys/class/net/$f ] || open=1
	done
	[ $open = 1 ] || break
done
kill $pid; wait $pid || true
[ $open = 0 ] || { cat /run/networkd.log >&2; exit 9; }
grep -h '^ID_NET_\(LINK_FILE\|NAME\)=' /run/udev.$kernel /run/udev.eno2 >&2 || true
ip -j addr
for l in ${name:-$kernel} eno2; do
	ethtool -k $l | grep '^\(.tx-tcp-segmentation\|generic-segmentation-offload\|generic-receive-offload\):'
done
