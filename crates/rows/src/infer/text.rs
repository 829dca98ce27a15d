//! Types for columns that a file declares to be text or bytes, whatever their values look like.

use super::{ColumnKind, ColumnStats, ColumnType, Habits, Written};

impl ColumnStats {
    /// The type for everything observed as text.
    pub fn decide_text(&self, habits: &Habits) -> ColumnType {
        self.declared(self.text(), habits)
    }

    /// The type for everything observed as bytes, which were given as hexadecimal digits.
    pub fn decide_bytes(&self, habits: &Habits) -> ColumnType {
        let bytes = self.max_bytes / 2;
        let stats = ColumnStats { seen: super::class::INVALID, max_bytes: bytes, ..self.clone() };
        let nullable = self.has_nulls() || habits.roomy;
        ColumnType { nullable, ..stats.declared(stats.text(), habits) }
    }

    fn declared(&self, kind: ColumnKind, habits: &Habits) -> ColumnType {
        ColumnType {
            kind: if habits.roomy { self.with_room(kind) } else { kind },
            nullable: self.has_nulls() || habits.roomy,
            max_chars: self.max_chars,
            max_bytes: self.max_bytes,
            written: Written::Plainly,
        }
    }

    /// Whether there is a NULL, or no value at all.
    pub fn has_nulls(&self) -> bool {
        self.nulls > 0 || !self.has_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_text_is_text_and_bytes_have_half_as_many_digits() {
        let mut stats = ColumnStats::new();
        stats.observe(Some(b"00ff"));
        stats.observe(Some(b"17"));
        let tight = Habits { roomy: false, ..Habits::default() };
        assert_eq!(stats.decide_text(&tight).to_string(), "VARCHAR(4) NOT NULL");
        assert_eq!(stats.decide_bytes(&tight).to_string(), "VARBINARY(2) NOT NULL");
        assert!(!stats.has_nulls());
        stats.observe(None);
        assert!(stats.has_nulls());
        let roomy = Habits { roomy: true, ..Habits::default() };
        assert_eq!(stats.decide_text(&roomy).to_string(), "VARCHAR(16) NULL");
        let empty = ColumnStats::new();
        assert_eq!(empty.decide_bytes(&tight).to_string(), "VARBINARY(1) NULL");
    }
}
