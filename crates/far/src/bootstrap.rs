//! The shell script that receives and starts the far side on the other machine.

/// The exit code of the script when it gets no program for its machine.
const OTHER_MACHINE: u8 = 97;
/// The exit code when it finds no folder from which it can start a program.
const NO_FOLDER: u8 = 98;

/// A shell script, without single quotes, that tells its machine, receives a program for it and starts that;
/// as root if this needs no password.
///
/// It prints one line, what `uname -sm` says. Then it takes a line with a number of bytes, and so many bytes
/// of a program, from its input. An input that ends instead ends it.
///
/// The program is in a new folder that only its owner can enter, and removes both when it starts: an existing
/// name is never used.
#[must_use]
pub fn bootstrap_script(nice: bool) -> String {
    let nice = if nice { " --nice" } else { "" };
    format!(
        r##"umask 077
uname -sm
read -r bytes || exit {OTHER_MACHINE}
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
head -c "$bytes" > "$t/far" || exit 1
s=
[ "$(id -u)" = 0 ] || ! sudo -n true 2>/dev/null || s="sudo -n"
$s "$t/far" "$t"{nice}
"##
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn it_may_stand_in_single_quotes() {
        assert!(!bootstrap_script(true).contains('\''));
    }

    #[test]
    fn it_tells_its_machine_and_runs_what_it_gets() {
        let run = |input: &[u8]| {
            let mut sh = Command::new("sh");
            sh.args(["-c", &bootstrap_script(false)]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut sh = sh.spawn().unwrap();
            sh.stdin.take().unwrap().write_all(input).unwrap();
            let ended = sh.wait_with_output().unwrap();
            (String::from_utf8(ended.stdout).unwrap(), ended.status.code())
        };
        let machine = format!("Linux {}\n", std::env::consts::ARCH);
        assert_eq!(run(b""), (machine.clone(), Some(OTHER_MACHINE.into())));
        let program = "#!/bin/sh\nread -r more; echo \"got $more\"";
        let input = format!("{}\n{program}the rest\n", program.len());
        assert_eq!(run(input.as_bytes()), (format!("{machine}got the rest\n"), Some(0)));
    }
}
