//! measure
#![allow(clippy::all, reason="x")]
use std::time::Instant;
use urlpack::*;
struct Cpu(f64);
impl Cpu {
    fn now() -> Self { Cpu(std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9) }
    fn secs(&self) -> f64 { Self::now().0 - self.0 }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let size: usize = a[1].parse().unwrap();
    let train_on = std::fs::read(&a[2]).unwrap();
    let test = std::fs::read(&a[3]).unwrap();
    let lines = |b: &'static [u8]| -> Vec<&'static [u8]> { b.split(|&c| c == b'\n').filter(|l| !l.is_empty()).collect() };
    let train_on = lines(train_on.leak());
    let test = lines(test.leak());
    let t = Instant::now();
    let mut o = Options::new(size);
    o.note = "x".into();
    let m = train(train_on.iter(), &o, &mut |p| if a.len() > 4 { eprintln!("{:?} {:?}", t.elapsed(), p) }).unwrap();
    eprintln!("trained in {:?}", t.elapsed());
    let t = Instant::now();
    let m = Model::from_bytes(m).unwrap();
    eprintln!("loaded in {:?} {:?}", t.elapsed(), m.info());
    let mut packed: Vec<u8> = vec![];
    let mut ends = vec![];
    let (mut raw, mut bad) = (0, 0);
    for l in &test { m.pack(l, &mut packed); ends.push(packed.len()); raw += l.len(); }
    println!("ratio {:.3} %", packed.len() as f64 * 100.0 / raw as f64);
    let mut out = vec![];
    let mut at = 0;
    let values: Vec<&[u8]> = ends.iter().map(|&e| { let v = &packed[at..e]; at = e; v }).collect();
    for (l, v) in test.iter().zip(&values) {
        out.clear();
        if m.unpack(v, &mut out, 1 << 20).is_err() || out != *l { bad += 1; }
    }
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..8 {
        let t = Cpu::now();
        let mut packed = Vec::with_capacity(raw);
        for l in &test { m.pack(l, &mut packed); }
        best.0 = best.0.min(t.secs());
        let t = Cpu::now();
        out.clear();
        for v in &values { out.clear(); m.unpack(v, &mut out, 1 << 20).unwrap(); }
        best.1 = best.1.min(t.secs());
    }
    let n = test.len() as f64;
    println!("bad {bad}; pack {:.0} ns unpack {:.0} ns", best.0 * 1e9 / n, best.1 * 1e9 / n);
    let mut order: Vec<usize> = (0..test.len()).collect();
    order.sort_by_key(|&i| test[i]);
    println!("order violations {}", order.windows(2).filter(|w| test[w[0]].cmp(test[w[1]]) != values[w[0]].cmp(values[w[1]])).count());
}
