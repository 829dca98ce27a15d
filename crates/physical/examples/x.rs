use physical::*;
use std::io::Write;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let src = Source::find(&disk::RealDisk, a[1].as_ref()).unwrap();
    let t: Vec<&TableFiles> =
        src.tables.iter().filter(|t| t.schema != "mysql" && t.schema != "sys").collect();
    println!("{:?}", src.judge(&disk::RealDisk, &t));
    std::fs::create_dir_all(&a[2]).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    for t in t {
        let d = match t.definition(&disk::RealDisk, None) {
            Ok(Some(d)) => d,
            Ok(None) => continue,
            Err(e) => {
                println!("{} {e}", t.name);
                continue;
            }
        };
        let rows = Rows {
            table: &d,
            format: Format::Tsv,
            threads: 2,
            lenient: false,
            stop: &stop,
            progress: &progress::Silent,
        };
        let mut out = Vec::new();
        let mut c = Counts::default();
        for f in &t.files {
            match File::open(&disk::RealDisk, f).and_then(|f| rows.write(&f, &mut out)) {
                Ok(n) => c += n,
                Err(e) => println!("{} {e}", t.name),
            }
        }
        println!("{}.{} {c:?}", t.schema, t.name);
        std::fs::File::create(format!("{}/{}.{}.tsv", a[2], t.schema, t.name))
            .unwrap()
            .write_all(&out)
            .unwrap();
    }
}
