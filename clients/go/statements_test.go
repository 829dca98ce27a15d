package remoraqueue

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestTextMeansTheSameInEveryMode(t *testing.T) {
	type name string
	for got, wanted := range map[string]string{
		value("it's"):                    "'it''s'",
		value(`a\b`):                     `_utf8mb4 x'615c62'`,
		value("\u00e9"):                  `_utf8mb4 x'c3a9'`,
		value("\x00"):                    `_utf8mb4 x'00'`,
		nullable(""):                     "NULL",
		quoted("a`b"):                    "`a``b`",
		escaped("\u00e9\U0001f600\x7f"):  `\u00e9\ud83d\ude00\u007f`,
		Literal(`it's \`):                `'it''s \\'`,
		Literal(name("x")):               "'x'",
		Literal(uint64(1 << 63)):         "9223372036854775808",
		Literal(-5):                      "-5",
		seconds(1500 * time.Millisecond): "'1.500'",
	} {
		if got != wanted {
			t.Error(got, wanted)
		}
	}
}

func TestTokensAreSeparatedByCommasThatAreInNoName(t *testing.T) {
	answer := row{{}, sql.NullString{String: "`a,b`.`c``,d`:1-2,x.y:3-4", Valid: true}}
	if stale := staleAmong(answer); len(stale) != 2 || !stale["`a,b`.`c``,d`:1-2"] || !stale["x.y:3-4"] {
		t.Fatal(stale)
	}
	if stale := staleAmong(row{{}, {}}); len(stale) != 0 {
		t.Fatal(stale)
	}
}

// numbered is an error as the driver has them.
type numbered struct{ Number uint16 }

func (n *numbered) Error() string { return "numbered" }

func TestNumbersOfErrors(t *testing.T) {
	wrapped := fmt.Errorf("wrapped: %w", &numbered{51001})
	if numberOf(wrapped) != 51001 || numberOf(errors.New("x")) != 0 || numberOf(nil) != 0 || numberOf((*numbered)(nil)) != 0 {
		t.Fatal(numberOf(wrapped))
	}
	for err, wanted := range map[error]bool{
		wrapped: true, &numbered{1146}: true, &numbered{51008}: false, &numbered{1213}: false,
		errors.New("x"): false, problemf(ErrUsage, "x"): true,
	} {
		if isLasting(err) != wanted {
			t.Error(err)
		}
	}
	if !isInterrupted(&numbered{1317}) || !isInterrupted(&numbered{1969}) || isInterrupted(&numbered{1213}) {
		t.Error("interrupted")
	}
}

func TestEndsOfTheSameKindAreToldTogether(t *testing.T) {
	made := &ender{until: time.Now()}
	one, other := failureOf(errors.New("x")), failureOf(RetryIn(time.Second, "x"))
	made.left = []ending{{failed: one}, {failed: other}, {failed: failureOf(errors.New("x"))}, {}, {untried: true}, {}}
	for _, wanted := range []int{2, 1, 2, 1, 0} {
		if some := made.next(); len(some) != wanted {
			t.Fatal(some, wanted)
		}
	}
	made.left = make([]ending, tokensAtOnce+1)
	for _, wanted := range []int{tokensAtOnce, 1} {
		if some := made.next(); len(some) != wanted {
			t.Fatal(len(some), wanted)
		}
	}
}

func TestPausesAreLongerAndLonger(t *testing.T) {
	var pause pauses
	for _, wanted := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := pause.next(); got != wanted*time.Millisecond {
			t.Fatal(got, wanted)
		}
	}
	pause.reset()
	if pause.next() != pauseFirst {
		t.Fatal(pause)
	}
}
