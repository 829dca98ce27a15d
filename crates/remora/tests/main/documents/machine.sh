# Makes the machine of a page, and runs the page there. It is called db1, has a MariaDB where Debian's is, and
# its own files except for the system's programs. It ends with the first process of its namespaces.
#
# Arguments: a folder with page.sh, and prepare.sh if the page needs more; the program's folder; the cache
# folder of sandboxes; the project.
set -eu
folder=$1 programs=$2 cache=$3 project=$4
root=$folder/root

hostname db1
ip link set lo up
mount --make-rprivate /
mkdir "$root"
mount -t tmpfs -o size=4g none "$root"
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ]; then cp -P "/$name" "$root/$name"; elif [ -d "/$name" ]; then
        mkdir "$root/$name" && mount --bind "/$name" "$root/$name"
    fi
done
mkdir -p "$root"/{usr,etc,dev,proc,sys,tmp,root,backup,srv,mnt,vault,run/mysqld,run/sshd,var/lib,var/log,var/tmp,var/lib/prometheus}
mount -t tmpfs none "$root/backup"
mount --bind -o ro /usr "$root/usr"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
cp -a /etc/passwd /etc/shadow /etc/group /etc/nsswitch.conf /etc/ssl /etc/ld.so.cache /etc/alternatives "$root/etc/"
[ ! -d /etc/ssh ] || cp -a /etc/ssh "$root/etc/"
mkdir "$root/etc/mysql"
echo '[mysqld]' > "$root/etc/mysql/my.cnf"
printf '127.0.0.1 localhost db1\n127.0.0.2 db2 old\n127.0.0.3 other new\n' > "$root/etc/hosts"
for place in "${programs%/*}" "$project" "$cache"; do
    mkdir -p "$root$place" && mount --bind -o ro "$place" "$root$place"
done
# Fresh data are made there, once for all.
mount -o remount,bind,rw "$root$cache"
# Sandboxes of a page are its own. Servers and their fresh data are everybody's.
mkdir -p "$root/var/cache/remora"
for name in servers pristine plugins store; do ln -s "$cache/$name" "$root/var/cache/remora/$name"; done
# The program as it is installed, with the plugins.
mkdir -p "$root"/opt/remora/{bin,lib/remora}
touch "$root/opt/remora/bin/remora"
mount --bind "$programs/remora" "$root/opt/remora/bin/remora"
ln -s "$programs/deps/liburlpack_udf.so" "$root/opt/remora/lib/remora/"
ln -s "${programs%/*}"/plugin/* "$root/opt/remora/lib/remora/"
cp "$folder/page.sh" "$root/tmp/page.sh"
[ ! -f "$folder/prepare.sh" ] || cp "$folder/prepare.sh" "$root/tmp/prepare.sh"
cp "$(dirname "$0")/scene.sh" "$root/tmp/scene.sh"
exec chroot "$root" env -i HOME=/root PATH="/opt/remora/bin:/usr/sbin:/usr/bin:/sbin:/bin" LANG=C.UTF-8 USER=root \
    XDG_CACHE_HOME=/var/cache PROJECT="$project" TZ=Europe/Berlin \
    bash -c 'cd && bash -eu /tmp/scene.sh > /tmp/scene.log 2>&1 && { [ ! -f /tmp/env ] || . /tmp/env; } && exec bash /tmp/page.sh || { cat /tmp/scene.log >&2; exit 1; }'
