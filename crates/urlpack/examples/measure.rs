//! Trains on one list, measures another: `measure SIZE TRAIN.txt TEST.txt`, or `measure MODEL TEST.txt`.
//!
//! Prints the ratio, what went wrong, and nanoseconds of this thread's CPU per string.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measuring tool"
)]

use urlpack::{Measured, Model, Options, measure, train};

const ROUNDS: usize = 20;
const PROBES: u64 = 1_000_000;

/// CPU time of this thread in nanoseconds, as Linux counts it: other work on the machine does not count.
fn cpu_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Least nanoseconds per string of several rounds.
fn best(strings: usize, mut work: impl FnMut()) -> f64 {
    let mut round = || {
        let start = cpu_ns();
        work();
        (cpu_ns() - start) / strings as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let test = std::fs::read(arguments.last().unwrap()).unwrap();
    let lines = |text: &[u8]| -> Vec<Vec<u8>> {
        text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let file = if let [size, corpora @ .., _] = &arguments[..]
        && let Ok(size) = size.parse()
    {
        let strings: Vec<Vec<u8>> =
            corpora.iter().flat_map(|path| lines(&std::fs::read(path).unwrap())).collect();
        let start = cpu_ns();
        let file = train(&strings, &Options::new(size), &mut |_| {}).unwrap();
        println!("trained in {:.1} s", (cpu_ns() - start) / 1e9);
        file
    } else {
        std::fs::read(&arguments[0]).unwrap()
    };
    let start = cpu_ns();
    let model = Model::from_bytes(file).unwrap();
    println!(
        "{} states, {} bytes, loaded in {:.1} ms",
        model.info().states,
        model.info().size,
        (cpu_ns() - start) / 1e6
    );
    let strings = lines(&test);
    let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
    let measured = measure(&model, &strings, PROBES, 1);
    let Measured { round_trip_wrong, order_wrong, prefix_wrong, .. } = measured;
    println!("ratio {:.3} %", measured.ratio() * 100.0);
    println!(
        "wrong: {round_trip_wrong} round trips, {order_wrong} orders, {prefix_wrong} of {PROBES} prefixes"
    );
    speed(&model, &strings);
}

fn speed(model: &Model<Vec<u8>>, strings: &[&[u8]]) {
    let mut values: Vec<Vec<u8>> = Vec::new();
    for string in strings {
        let mut value = Vec::new();
        model.pack(string, &mut value);
        values.push(value);
    }
    let mut out = Vec::with_capacity(1 << 16);
    let pack = best(strings.len(), || {
        for string in strings {
            out.clear();
            model.pack(string, &mut out);
        }
    });
    let unpack = best(strings.len(), || {
        for value in &values {
            out.clear();
            model.unpack(value, &mut out, usize::MAX).unwrap();
        }
    });
    let batch = best(strings.len(), || {
        let mut bytes = 0;
        model.unpack_batch(&values, usize::MAX, |_, string| bytes += string.unwrap().len());
        assert!(bytes > 0);
    });
    println!("pack {pack:.0} ns, unpack {unpack:.0} ns, batch {batch:.0} ns");
}
