//! remora
fn main(){}
