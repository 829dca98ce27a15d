//! `remora url`, and a sandbox with its functions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{copy_program, fed, places};

const PROGRAM: &str = env!("CARGO_BIN_EXE_remora");

/// The list of real URLs that the demo uses.
fn world() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/urls_world.txt")
}

fn some_urls(count: usize) -> String {
    let text = std::fs::read_to_string(world()).unwrap();
    text.lines().step_by(7).take(count).map(|line| format!("{line}\n")).collect()
}

fn url(arguments: &[&str], stdin: &[u8]) -> Output {
    fed(Command::new(PROGRAM).arg("url").args(arguments), stdin)
}

fn done(arguments: &[&str], stdin: &[u8]) -> Vec<u8> {
    let output = url(arguments, stdin);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Exit code and message of a command that fails.
fn failed(arguments: &[&str], stdin: &[u8]) -> (Option<i32>, String) {
    let output = url(arguments, stdin);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn lines_come_back_in_every_encoding() {
    let urls = some_urls(500);
    for form in ["hex", "escaped"] {
        let packed = done(&["pack", "--as", form], urls.as_bytes());
        assert_eq!(packed.iter().filter(|byte| **byte == b'\n').count(), 500, "{form}");
        assert_eq!(done(&["unpack", "--as", form], &packed), urls.as_bytes(), "{form}");
    }
    let hex = String::from_utf8(done(&["pack"], urls.as_bytes())).unwrap();
    assert!(hex.len() < urls.len() * 2 / 3, "{} of {}", hex.len(), urls.len());
    // Hex in the order of its bytes is in the order of the URLs, but for what is longer.
    let mut sorted: Vec<&str> = urls.lines().collect();
    sorted.sort_unstable();
    let joined = sorted.join("\n") + "\n";
    let packed = String::from_utf8(done(&["pack"], joined.as_bytes())).unwrap();
    assert!(packed.lines().is_sorted());
    // No last line end, CR LF, an empty line: all stay unchanged.
    for odd in
        ["http://a.example/", "http://a.example/\r\nhttp://b.example/\r\n", "\nhttp://a.example/\n\n", ""]
    {
        let packed = done(&["pack"], odd.as_bytes());
        assert_eq!(done(&["unpack"], &packed), odd.as_bytes(), "{odd:?}");
    }
}

#[test]
fn a_column_is_replaced_and_the_rest_stays_to_the_byte() {
    let csv = "id,url,note\n1,\"http://a.example/?q=1,2\",\"say \"\"hi\"\"\nthere\"\n2,http://b.example/,\n";
    let packed = done(&["pack", "--column", "url"], csv.as_bytes());
    let text = String::from_utf8(packed.clone()).unwrap();
    assert!(text.starts_with("id,url,note\n1,"), "{text}");
    assert!(text.contains(",\"say \"\"hi\"\"\nthere\"\n2,") && !text.contains("example"), "{text}");
    assert_eq!(done(&["unpack", "--column", "url"], &packed), csv.as_bytes());
    assert_eq!(done(&["unpack", "--column", "2"], &packed), csv.as_bytes());
    let tsv = "7\thttp://a.example/\t\\N\n8\thttp://b.example/\tx\n";
    let packed = done(&["pack", "--column", "2"], tsv.as_bytes());
    assert_eq!(done(&["unpack", "--column", "2"], &packed), tsv.as_bytes());
}

#[test]
fn null_and_empty_stay_apart_in_a_column() {
    let csv = "id,url\n1,http://a.example/\n2,\n3,\"\"\n4,NULL\n5,NULL\n6,NULL\n7,http://b.example/\n";
    let packed = done(&["pack", "--column", "url"], csv.as_bytes());
    let text = String::from_utf8(packed.clone()).unwrap();
    assert!(text.contains("\n2,\n3,\"\"\n4,NULL\n"), "{text}");
    assert_eq!(done(&["unpack", "--column", "url"], &packed), csv.as_bytes());
    let tsv = "7\thttp://a.example/\n8\t\\N\n9\thttp://b.example/a\\tb\n";
    let packed = done(&["pack", "--column", "2"], tsv.as_bytes());
    assert!(packed.windows(6).any(|part| part == b"\n8\t\\N\n"), "{}", String::from_utf8_lossy(&packed));
    assert_eq!(done(&["unpack", "--column", "2"], &packed), tsv.as_bytes());
}

#[test]
fn an_empty_input_gives_an_empty_output() {
    assert_eq!(done(&["pack", "--column", "url"], b""), b"");
    assert_eq!(done(&["unpack", "--column", "2"], b""), b"");
}

#[test]
fn a_block_of_input_may_end_anywhere() {
    let rows: String =
        (0..90_000).map(|row| format!("{row},\"http://a{}.example/{row}\n\",x\n", row % 9)).collect();
    assert!(rows.len() > 2 << 20);
    let packed = done(&["pack", "--column", "2"], rows.as_bytes());
    assert_eq!(done(&["unpack", "--column", "2"], &packed), rows.as_bytes());
}

#[test]
fn errors_are_reported_with_their_line() {
    let (code, text) = failed(&["unpack"], b"61\nxyz\n");
    assert!(code == Some(1) && text.contains("line 2: 'xyz' is not hex"), "{code:?} {text}");
    let (code, text) = failed(&["unpack"], b"FF\n");
    assert!(
        code == Some(1) && text.contains("line 1: 'FF'") && text.contains("not a packed value"),
        "{text}"
    );
    let (code, text) = failed(&["unpack"], b"F1\n");
    assert!(code == Some(1) && text.contains("model number 2"), "{text}");
    let (code, text) = failed(&["pack", "--column", "link"], b"id,url\n1,http://a.example/\n");
    assert!(code == Some(2) && text.contains("the header has id, url"), "{code:?} {text}");
    let (code, text) = failed(&["pack", "--column", "2"], b"1,http://a.example/\n2\n3,http://b.example/\n");
    assert!(code == Some(1) && text.contains("line 2: there is no column 2 in 1 field"), "{code:?} {text}");
    let (code, text) = failed(&["pack", "--column", "2", "--as", "escaped"], b"1,a\n");
    assert!(code == Some(2) && text.contains("leave --as out"), "{code:?} {text}");
    let long = [b"a\n".as_slice(), &[b'a'; (1 << 20) + 1], b"\n"].concat();
    let (code, text) = failed(&["pack"], &long);
    assert!(code == Some(1) && text.contains("line 2: a value of 1048577 bytes"), "{code:?} {text}");
    let (code, text) = failed(&["pack", "--model", "/dev/null"], b"");
    assert!(code == Some(1) && text.contains("/dev/null") && text.contains("model file"), "{text}");
    let (code, text) = failed(&["measure", "/dev/null"], b"");
    assert!(code == Some(1) && text.contains("no URLs"), "{text}");
}

#[test]
fn values_of_a_trained_model_are_unpacked_only_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls.txt.gz");
    let mut gzip = codec::Codec::Gzip.encoder(std::fs::File::create(&list).unwrap(), 1).unwrap();
    gzip.write_all(some_urls(3_000).as_bytes()).unwrap();
    gzip.finish().unwrap();
    let (list, model) = (list.to_str().unwrap(), folder.path().join("site.urlmodel"));
    let model = model.to_str().unwrap();
    let line = done(
        &["train", list, "-o", model, "--size", "300K", "--number", "1", "--note", "mine", "--json"],
        b"",
    );
    let summary: serde_json::Value = serde_json::from_slice(last_line(&line)).unwrap();
    assert_eq!((&summary["urls"], &summary["number"]), (&3_000.into(), &1.into()), "{summary}");
    let expected = summary["expected_ratio"].as_f64().unwrap();
    assert!((0.2..0.6).contains(&expected), "{summary}");
    assert!(std::fs::metadata(model).unwrap().len() <= 300_000);

    let line = done(&["measure", list, "--model", model, "--probes", "5000", "--json"], b"");
    let found: serde_json::Value = serde_json::from_slice(last_line(&line)).unwrap();
    for wrong in ["order_wrong", "prefix_wrong", "round_trip_wrong"] {
        assert_eq!(found[wrong], 0, "{found}");
    }
    assert!(found["ratio"].as_f64().unwrap() < expected, "it has seen these: {found}");
    assert!(found["pack_ns"].as_f64().unwrap() > 0.0 && found["probes"] == 5_000, "{found}");

    let packed = done(&["pack", "--model", model], b"http://a.example/\n");
    assert!(packed.starts_with(b"F0"));
    assert_eq!(done(&["unpack", "--model", model], &packed), b"http://a.example/\n");
    let (code, text) = failed(&["unpack"], &packed);
    assert!(code == Some(1) && text.contains("packed with model number 1"), "{text}");
}

#[test]
fn a_model_gets_a_free_number_and_everybody_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls.txt");
    std::fs::write(&list, some_urls(300)).unwrap();
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        let model = folder.path().join(format!("{name}.urlmodel"));
        let text = done(
            &[
                "train",
                list.to_str().unwrap(),
                "-o",
                model.to_str().unwrap(),
                "--size",
                "100K",
                "--no-estimate",
                "--json",
            ],
            b"",
        );
        let summary: serde_json::Value = serde_json::from_slice(last_line(&text)).unwrap();
        assert_eq!(summary["number"], number, "{summary}");
        assert_eq!(std::fs::metadata(&model).unwrap().permissions().mode() & 0o777, 0o644);
    }
    // The same where the model's name has no folder.
    let arguments =
        ["url", "train", "urls.txt", "-o", "d.urlmodel", "--size", "100K", "--no-estimate", "--json"];
    let output = Command::new(PROGRAM).args(arguments).current_dir(&folder).output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(last_line(&output.stdout)).unwrap();
    assert_eq!(summary["number"], 4, "{summary}");
}

#[test]
fn a_number_belongs_to_one_model_for_ever() {
    let work = tempfile::tempdir().unwrap();
    let list = work.path().join("urls.txt");
    std::fs::write(&list, some_urls(300)).unwrap();
    let folder = work.path().join("urlpack");
    let folder = folder.to_str().unwrap();
    let path = |name: &str| work.path().join(name).to_str().unwrap().to_owned();
    let train = |name: &str, more: &[&str]| {
        let file = path(name);
        let mut arguments =
            vec!["train", list.to_str().unwrap(), "-o", &file, "--size", "100K", "--no-estimate"];
        arguments.extend(more);
        done(&arguments, b"");
        file
    };
    let model = |arguments: &[&str]| {
        let arguments = [&["model"], arguments, &["--folder", folder]].concat();
        let output = url(&arguments, b"");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (site, other) = (
        train("site.urlmodel", &["--number", "1"]),
        train("other.urlmodel", &["--number", "1", "--note", "x"]),
    );
    assert!(model(&["add", &site]).1.contains("site: number 1, "));
    assert_eq!(model(&["add", &site]).0, 0, "the same once more");
    let (code, text) = model(&["add", &other]);
    assert!(code == 1 && text.contains("number 1 is model site") && text.contains("--number 2"), "{text}");
    let (code, text) = model(&["add", &other, "--number", "2", "--name", "site"]);
    assert!(code == 1 && text.contains("number 1 is called site"), "{text}");
    assert_eq!(model(&["add", &other, "--number", "2", "--check", "1"]).0, 0);
    assert_eq!(model(&["add", "small", "--check", "2", "--name", "checked"]).0, 0);
    let (code, text) = model(&["list"]);
    assert!(code == 0 && text.lines().filter(|line| line.ends_with(", ready")).count() == 3, "{text}");
    assert!(text.contains("checked: number 3"), "number 0 of a built-in one is not taken over: {text}");

    // A file in its place is either the model that was added, or reported as another one.
    std::fs::copy(&other, format!("{folder}/site.urlmodel")).unwrap();
    let (code, text) = model(&["list"]);
    assert!(code == 4 && text.contains("site: number 1") && text.contains("is another model"), "{text}");
    assert_eq!((model(&["add", &site]).0, model(&["list"]).0), (0, 0));

    // A retired number is not free.
    assert_eq!(model(&["remove", "site"]).0, 0);
    assert!(!std::fs::exists(format!("{folder}/site.urlmodel")).unwrap());
    let (code, text) = model(&["add", &other, "--number", "1", "--name", "late"]);
    assert!(code == 1 && text.contains("number 1 was model site"), "{text}");
    assert_eq!(model(&["add", &other, "--number", "1", "--name", "late", "--reuse-number"]).0, 0);
    // Number 0 is given only with a flag, and nothing is added to a registry that somebody edited.
    let zero = train("zero.urlmodel", &["--number", "0"]);
    assert!(model(&["add", &zero]).1.contains("zero: number 4"));
    assert!(
        model(&["add", &zero, "--name", "own", "--instead-of", "url"])
            .1
            .contains("own: number 0 of url_pack")
    );
    let registry = std::fs::read_to_string(format!("{folder}/models")).unwrap();
    std::fs::write(format!("{folder}/models"), registry.replace("own", "new")).unwrap();
    let (code, text) = model(&["add", &zero, "--name", "more"]);
    assert!(code == 1 && text.contains("the checksum does not match"), "{text}");
}

#[test]
fn a_base_and_a_few_urls_pack_better_than_either() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(world()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let write = |name: &str, urls: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(&path, urls.join("\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let every = |step: usize, from: usize| lines.iter().skip(from).step_by(step).copied().collect::<Vec<_>>();
    let (known, own) = (write("known.txt", &every(4, 0)), write("own.txt", &every(100, 1)));
    let test = write("test.txt", &every(10, 3));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let train = |list: &str, name: &str, more: &[&str]| {
        let file = path(name);
        done(&[&["train", list, "-o", &file, "--size", "400K", "--no-estimate"], more].concat(), b"");
        file
    };
    let ratio = |model: &str| {
        let text = done(&["measure", &test, "--model", model, "--probes", "100", "--json"], b"");
        serde_json::from_slice::<serde_json::Value>(last_line(&text)).unwrap()["ratio"].as_f64().unwrap()
    };
    let base = train(&known, "base.urlmodel", &[]);
    let alone = train(&own, "alone.urlmodel", &[]);
    let both = train(&own, "both.urlmodel", &["--base", &base]);
    let (alone, both) = (ratio(&alone), ratio(&both));
    assert!(both < alone * 0.95, "{both} against {alone}");
}

#[test]
fn text_has_a_model_of_its_own() {
    let names = "Mary Smith\nmary.smith@example.com\n/usr/share/doc/README\n";
    let packed = done(&["pack", "--text"], names.as_bytes());
    assert_eq!(done(&["unpack", "--text"], &packed), names.as_bytes());
    assert!(packed.len() < done(&["pack"], names.as_bytes()).len());
    let output = url(&["unpack"], &packed);
    assert_ne!(output.stdout, names.as_bytes(), "number 0 of text is not number 0 of URLs");
}

fn last_line(text: &[u8]) -> &[u8] {
    text.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap()
}

#[test]
fn codecs_are_compared_on_hosts_they_have_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls.txt");
    std::fs::write(&list, some_urls(1_500)).unwrap();
    let text = done(&["compare", list.to_str().unwrap(), "--json"], b"");
    let lines: Vec<serde_json::Value> =
        text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let ratio = |name: &str| {
        let found =
            lines.iter().find(|line| line["name"].as_str().is_some_and(|known| known.starts_with(name)));
        found.unwrap_or_else(|| panic!("{name}: {lines:?}"))["ratio"].as_f64().unwrap()
    };
    let ours = ratio("remora, 16 MB");
    for other in ["zstd -19, dictionary of 112", "zstd -19, dictionary of 1000", "brotli", "FSST"] {
        assert!(ours < ratio(other), "{other}: {} against {ours}", ratio(other));
    }
}

/// The program with the library beside it, as in an installation.
fn installed(folder: &Path) -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("liburlpack_udf.so");
    copy_program(Path::new(PROGRAM), &folder.join("remora"));
    std::fs::copy(library, folder.join("liburlpack_udf.so")).unwrap();
    folder.join("remora")
}

#[test]
fn a_sandbox_with_plugins_has_the_functions() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("alone");
    copy_program(Path::new(PROGRAM), &alone);
    let output = Command::new(&alone).args(["sandbox", "start", "urls-test", "--plugins"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("package remora-urlpack"), "{text}");

    let program = installed(folder.path());
    let data = folder.path().join("server");
    let name = format!("urls-test-{}", std::process::id());
    let run = |arguments: &[&str]| Command::new(&program).arg("sandbox").args(arguments).output().unwrap();
    let started = run(&["start", &name, "--plugins", "--folder", data.to_str().unwrap()]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let sql = "SELECT url_unpack(url_pack('http://a.example/'))";
    let answer = |when: &str| {
        let output = run(&["shell", &name, "--", "-BNe", sql]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "http://a.example/\n", "{when}: {output:?}");
    };
    answer("after the first start");
    assert!(run(&["stop", &name]).status.success());
    assert!(run(&["start", &name]).status.success());
    answer("started again without the option");
    assert!(run(&["stop", &name, "--remove"]).status.success());
    assert!(!data.exists() && !sandbox::list(&places()).iter().any(|listed| listed.name == name));
}
