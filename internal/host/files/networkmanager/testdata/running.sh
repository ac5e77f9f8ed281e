set -e
dir=$1; nm=$2; nmcli=$3
ip link set lo up
for n in 1 2; do ip link add eno$n index 1$n address 02:00:00:00:00:0$n type veth peer name peer$n index 2$n; ip link set peer$n up; done
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir -p /run/dbus /run/udev/data /run/NetworkManager/system-connections /run/upper /run/work /run/systemd
for n in 1 11 12 21 22; do echo I:1 >/run/udev/data/n$n; done
mount -t overlay none -o lowerdir=/etc,upperdir=/run/upper,workdir=/run/work /etc
rm -rf /etc/NetworkManager; mkdir -p /etc/NetworkManager/system-connections /etc/NetworkManager/conf.d
mount -t tmpfs none /var/lib; mkdir -p /var/lib/NetworkManager
for d in etc run; do [ ! -d "$dir/$d/NetworkManager" ] || cp -a "$dir/$d/NetworkManager/." /$d/NetworkManager; done
cat >/etc/NetworkManager/NetworkManager.conf <<X
[main]
plugins=keyfile
dns=none
auth-polkit=false
no-auto-default=*
[keyfile]
unmanaged-devices=interface-name:peer*
[device-veth]
match-device=interface-name:eno*
managed=1
X
cat >/run/bus.conf <<X
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth><policy context="default"><allow user="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
X
dbus-daemon --config-file=/run/bus.conf --nofork --nopidfile >/run/bus.log 2>&1 &
bus=$!
n=0; while [ ! -S /run/dbus/system_bus_socket ] && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1; done
"$nm" --debug --log-level=INFO >/run/nm.log 2>&1 &
pid=$!
trap 'kill $pid $bus; wait || true' EXIT
n=0; while ! grep -q 'startup complete' /run/nm.log && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1; done
[ $n -lt 600 ] || { cat /run/nm.log >&2; exit 9; }
ip -j addr
"$nmcli" -t -f DEVICE,NAME,UUID connection show --active | grep -v '^lo:' | sort
