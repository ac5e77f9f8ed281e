set -e
ip link add eno1 type veth peer name peer1
ip link add eno2 type veth peer name peer2
mount -t tmpfs none /run
mkdir -p /run/network /run/sbin
cp -a "$2"/sbin/. /run/sbin
mount -t overlay none -o lowerdir=/usr/sbin,upperdir=/run/sbin/upper,workdir=/run/sbin/work /usr/sbin
mount -t tmpfs none /etc
mkdir -p /etc/network/if-pre-up.d /etc/network/if-up.d
cp -a "$2"/etc/. /etc
code=0; "$1" -a --force >/run/said 2>&1 || code=$?
echo "exit $code"
ip -o addr show | sed 's/ *valid_lft.*//; s/^[0-9]*: //' | grep -v "fe80:\|peer\|brp\|bop\|v7 " | sort
ip -o link show | sort -k2
ip route show | sort
cat /run/network/ifstate 2>/dev/null | sort
cat /run/said >&2
