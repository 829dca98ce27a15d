#!/bin/sh
# Stands in for LVM's lvs, lvcreate and lvremove, and for sync. A volume NAME of the one group is the file
# NAME.img, a snapshot a copy of it on a loop device; the file "trouble" says what goes wrong.
here=$(dirname "$0")
program=$(basename "$0")
group=$(cat "$here/group")
trouble=$(cat "$here/trouble")
echo "$program $*" >>"$here/log"
last=
for word; do
    [ "$before" = --name ] && name=$word
    [ "$before" = --addtag ] && tags=$tags,$word
    before=$word last=$word
done
case $program:$last in
lvs:/dev/$group/*)
    volume=${last##*/}
    if ! [ -e "$here/$volume.img" ]; then
        echo "  Failed to find logical volume \"$group/$volume\"" >&2
        exit 5
    fi
    printf '{"report": [{"lv": [{"vg_name":"%s", "lv_name":"%s", "lv_size":"%s", "lv_attr":"-wi-ao----", "pool_lv":"", "vg_free":"%s", "vg_extent_size":"65536"}]}]}' \
        "$group" "$volume" "$(stat -c %s "$here/$volume.img")" 104857600
    ;;
lvs:"$group")
    rows=
    for left in "$here"/tags/*; do
        [ -e "$left" ] || continue
        rows="$rows,{\"lv_name\":\"${left##*/}\", \"lv_tags\":\"$(cat "$left")\"}"
    done
    printf '{"report": [{"lv": [%s]}]}' "${rows#,}"
    ;;
lvs:*)
    state=a
    [ "$trouble" = overflow ] && state=I
    printf '{"report": [{"lv": [{"lv_name":"%s", "lv_attr":"sri-%s-s---", "snap_percent":"12.50"}]}]}' "${last##*/}" $state
    ;;
lvcreate:*)
    cp "$here/${last##*/}.img" "$here/$name.copy"
    mkdir -p "/dev/$group" "$here/tags"
    ln -s "$(losetup --find --show --read-only "$here/$name.copy")" "/dev/$group/$name"
    echo "${tags#,}" >"$here/tags/$name"
    ;;
lvremove:*)
    name=${last##*/}
    if [ "$trouble" = "in use" ]; then
        echo "  Logical volume $last in use." >&2
        exit 5
    fi
    losetup --detach "$(readlink "/dev/$group/$name")"
    rm "/dev/$group/$name" "$here/tags/$name" "$here/$name.copy"
    ;;
esac
