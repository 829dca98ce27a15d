use super::*;

/// A connection that delivers a prepared answer.
struct Answer {
    bytes: io::Cursor<Vec<u8>>,
    /// The most bytes that one read returns.
    step: usize,
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.step);
        self.bytes.read(&mut buffer[..most])
    }
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Collected {
    rows: Vec<Vec<Option<Vec<u8>>>>,
    row: Vec<Option<Vec<u8>>>,
    value: Vec<u8>,
}

impl RowSink for Collected {
    fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.value.extend_from_slice(bytes);
        Ok(())
    }
    fn end_value(&mut self) {
        self.row.push(Some(std::mem::take(&mut self.value)));
    }
    fn null(&mut self) {
        self.row.push(None);
    }
    fn end_row(&mut self) -> io::Result<()> {
        self.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }
}

fn packet(out: &mut Vec<u8>, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (now, after) = rest.split_at(rest.len().min(PAYLOAD_MAX));
        out.extend_from_slice(&now.len().to_le_bytes()[..3]);
        out.push(0);
        out.extend_from_slice(now);
        rest = after;
        if now.len() < PAYLOAD_MAX {
            return;
        }
    }
}

fn head(columns: u8) -> Vec<u8> {
    let mut out = Vec::new();
    packet(&mut out, &[columns]);
    for _ in 0..columns {
        packet(&mut out, b"a description");
    }
    packet(&mut out, &[0xfe, 0, 0, 2, 0]);
    out
}

fn value(row: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ 0..=0xfa => row.push(u8::try_from(length).unwrap()),
        length @ 0..=0xffff => {
            row.push(0xfc);
            row.extend_from_slice(&length.to_le_bytes()[..2]);
        }
        length => {
            row.push(0xfe);
            row.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
    row.extend_from_slice(bytes);
}

fn read(answer: Vec<u8>, step: usize) -> (Result<u64, Broken>, Collected) {
    let mut wire = Answer { bytes: io::Cursor::new(answer), step };
    let mut rows = Collected::default();
    (query(&mut wire, "SELECT", &Refused::default(), &mut rows), rows)
}

#[test]
fn values_of_every_length_come_whole() {
    for length in
        [0, 1, 250, 251, 65_535, 65_536, BUFFER_BYTES - 20, BUFFER_BYTES, PAYLOAD_MAX - 9, PAYLOAD_MAX + 7]
    {
        let long: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut answer = head(3);
        let mut row = Vec::new();
        value(&mut row, b"first");
        row.push(0xfb);
        value(&mut row, &long);
        packet(&mut answer, &row);
        packet(&mut answer, b"\x01a\x01b\x01c");
        packet(&mut answer, &[0xfe, 0, 0, 2, 0]);
        let (ended, got) = read(answer, 100_000);
        assert!(matches!(ended, Ok(2)), "{length}");
        assert_eq!(got.rows[0], [Some(b"first".to_vec()), None, Some(long)], "{length}");
        assert_eq!(got.rows[1], [Some(b"a".to_vec()), Some(b"b".to_vec()), Some(b"c".to_vec())]);
    }
}

#[test]
fn an_error_amid_rows_is_the_servers() {
    let mut answer = head(1);
    packet(&mut answer, b"\x011");
    packet(&mut answer, b"\xff\x84\x05#HY000Table definition has changed");
    let (ended, got) = read(answer, 7);
    assert!(matches!(ended, Err(Broken::Server(error)) if error.code == 1412 && error.state == "HY000"));
    assert_eq!(got.rows.len(), 1);
}

#[test]
fn a_cut_or_garbled_answer_is_an_error_and_no_end() {
    let mut answer = head(1);
    packet(&mut answer, b"\x03abc");
    let whole = answer.clone();
    for cut in 0..whole.len() {
        let (ended, _) = read(whole[..cut].to_vec(), 5);
        assert!(matches!(ended, Err(Broken::Wire(_))), "{cut}");
    }
    for row in [&b"\x04abc"[..], b"\x03abcd", b"\xff", b"\xfc\x01", b"\x01a\x01b"] {
        let mut answer = head(1);
        packet(&mut answer, row);
        packet(&mut answer, &[0xfe, 0, 0, 2, 0]);
        assert!(read(answer, 5).0.is_err(), "{row:?}");
    }
}

#[test]
fn a_request_for_a_file_is_remembered() {
    let mut answer = Vec::new();
    packet(&mut answer, b"\xfb/etc/passwd");
    let refused = Refused::default();
    let mut wire = Answer { bytes: io::Cursor::new(answer), step: 100 };
    assert!(query(&mut wire, "SELECT 1", &refused, &mut Collected::default()).is_err());
    assert_eq!(refused.take().as_deref(), Some("/etc/passwd"));
}
