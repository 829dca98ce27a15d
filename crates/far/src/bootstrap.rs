//! The shell script that receives and starts the far side on the other machine.

/// The exit code of the script when the machine is not one with Linux and the architecture of this build.
const OTHER_MACHINE: u8 = 97;
/// The exit code when it finds no folder from which it can start a program.
const NO_FOLDER: u8 = 98;

/// A shell script, without single quotes, that takes the next `bytes` bytes of its input as a program and
/// starts it; as root if that needs no password.
///
/// The program is in a new folder that only its owner can enter, and removes both when it starts: an existing
/// name is never used. Of the caller's data the script contains only numbers.
#[must_use]
pub fn bootstrap_script(bytes: usize, nice: bool) -> String {
    let arch = std::env::consts::ARCH;
    let nice = if nice { " --nice" } else { "" };
    format!(
        r##"umask 077
[ "$(uname -sm)" = "Linux {arch}" ] || {{ echo "this is $(uname -sm); remora brings a program for Linux {arch}" >&2; exit {OTHER_MACHINE}; }}
t=
for d in "$XDG_RUNTIME_DIR" /dev/shm /run "$HOME/.cache" /var/tmp /tmp; do
  [ -n "$d" ] && [ -d "$d" ] && [ -w "$d" ] || continue
  t=$(mktemp -d -p "$d" 2>/dev/null) || {{ t=; continue; }}
  printf "#!/bin/sh\nexit 0\n" > "$t/far" && chmod 700 "$t/far" && "$t/far" 2>/dev/null && break
  rm -rf "$t"
  t=
done
[ -n "$t" ] || {{ echo "no folder that programs may be started from: /dev/shm, ~/.cache, /var/tmp, /tmp" >&2; exit {NO_FOLDER}; }}
trap "rm -rf \"$t\"" EXIT
trap "exit 129" HUP INT TERM PIPE
head -c {bytes} > "$t/far" || exit 1
s=
[ "$(id -u)" = 0 ] || ! sudo -n true 2>/dev/null || s="sudo -n"
$s "$t/far" "$t"{nice}
"##
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_may_stand_in_single_quotes() {
        assert!(!bootstrap_script(1, true).contains('\''));
        assert!(bootstrap_script(17, false).contains("head -c 17 "));
    }
}
