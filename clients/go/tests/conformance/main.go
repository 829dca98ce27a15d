// Runs clients/conformance/steps.tsv through go-sql-driver, in the folder above this one: go run
// ./conformance
//
// The server is at the socket that REMORA_QUEUE_SOCKET names. With REMORA_QUEUE_RESTARTS=1 whoever started
// this restarts the server: it is asked with a line on standard output, "stop" or "kill", and answers with a
// line.
package main

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	database = "go_conformance"
	steps    = "../../conformance/steps.tsv"
	patience = 60 * time.Second
)

// errLeftOut is for a step that nobody restarts the server for.
var errLeftOut = errors.New("nobody restarts the server")

// run is what the steps before have left.
type run struct {
	connections map[string]*connection
	tokens      map[string]string
	// Whether the last result was text or bytes.
	lastType string
	answers  *bufio.Scanner
}

func (r *run) connection(name string) (*connection, error) {
	if r.connections[name] == nil {
		opened, err := open()
		if err != nil {
			return nil, err
		}
		r.connections[name] = opened
	}
	return r.connections[name], nil
}

var (
	tokenForm  = regexp.MustCompile(`\$([a-z])`)
	timesForm  = regexp.MustCompile(`\{(.)\*(\d+)\}`)
	letterForm = regexp.MustCompile(`\{u\+([0-9a-f]+)\}`)
	stepForm   = regexp.MustCompile(`(?s)^(@\w+)? ?(.*)$`)
	answerForm = regexp.MustCompile(`"token":"([^"]+)"`)
	valuesForm = regexp.MustCompile(`\(%s.*\)`)
	withRows   = regexp.MustCompile(`^(SET STATEMENT .* FOR )?(SELECT|SHOW)`)
)

// text is a field with its tokens, its many letters and its letters by number.
func (r *run) text(field string) string {
	field = tokenForm.ReplaceAllStringFunc(field, func(name string) string {
		if token, ok := r.tokens[name[1:]]; ok {
			return token
		}
		return name
	})
	field = timesForm.ReplaceAllStringFunc(field, func(all string) string {
		found := timesForm.FindStringSubmatch(all)
		times, _ := strconv.Atoi(found[2])
		return strings.Repeat(found[1], times)
	})
	return letterForm.ReplaceAllStringFunc(field, func(all string) string {
		number, _ := strconv.ParseInt(letterForm.FindStringSubmatch(all)[1], 16, 32)
		return string(rune(number))
	})
}

// step runs a line.
func (r *run) step(fields []string) error {
	name, expected, more := fields[0], fields[2], fields[3:]
	found := stepForm.FindStringSubmatch(fields[1])
	verb, query := found[1], r.text(found[2])
	if verb == "@stop" || verb == "@kill" {
		return r.restart(verb[1:])
	}
	// What a regular expression says of a token is no token.
	if !strings.HasPrefix(expected, "~") {
		expected = r.text(expected)
	}
	rows := [][]any{}
	for _, one := range more {
		if strings.HasPrefix(one, "A") {
			values := []any{}
			for _, value := range strings.Split(r.text(one[1:]), "|") {
				values = append(values, value)
			}
			rows = append(rows, values)
		}
	}
	got, err := r.result(name, verb, query, rows)
	for end := time.Now().Add(patience); err == nil && verb == "@until" && !fits(got, expected) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		got, err = r.result(name, verb, query, rows)
	}
	if err != nil {
		return err
	}
	if !fits(got, expected) {
		return fmt.Errorf("%s %.150s\n  wanted %.150s\n  got    %.150s", name, fields[1], expected, got)
	}
	for _, one := range more {
		if err := r.checkMore(name, one, got); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) restart(how string) error {
	if os.Getenv("REMORA_QUEUE_RESTARTS") != "1" {
		return errLeftOut
	}
	fmt.Println(how)
	if !r.answers.Scan() {
		return fmt.Errorf("no answer to %s", how)
	}
	for name, one := range r.connections {
		one.close()
		delete(r.connections, name)
	}
	return nil
}

func (r *run) checkMore(name, one, got string) error {
	switch one[0] {
	case 'W':
		on, err := r.connection(name)
		if err != nil {
			return err
		}
		warnings, err := on.query("SHOW WARNINGS", nil)
		if err != nil || !strings.Contains("\n"+warnings+"\n", "|"+one[1:]+"|") {
			return fmt.Errorf("wanted warning %s, got %s (%v)", one, warnings, err)
		}
	case '$':
		tokens := answerForm.FindAllStringSubmatch(got, -1)
		names := strings.Split(strings.ReplaceAll(one, "$", ""), ",")
		if len(names) != len(tokens) {
			return fmt.Errorf("wanted %s, got %v", one, tokens)
		}
		for at, name := range names {
			r.tokens[name] = tokens[at][1]
		}
	}
	return nil
}

// result is what a step gives, as text, also an error of the server or of the connection.
func (r *run) result(name, verb, query string, rows [][]any) (string, error) {
	on, err := r.connection(name)
	if err != nil {
		return "", err
	}
	got, err := r.do(name, on, verb, query, rows)
	var wrong *mistake
	if errors.As(err, &wrong) {
		return "", err
	}
	if err == nil {
		return got, nil
	}
	number := uint16(0)
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		number = told.Number
	}
	// After an error of the connection itself there is none.
	if on.ping() != nil {
		on.close()
		delete(r.connections, name)
	}
	return fmt.Sprintf("!%d", number), nil
}

// mistake is an error of this program or of a step, and not what the step gives.
type mistake struct{ text string }

func (m *mistake) Error() string { return m.text }

func (r *run) do(name string, on *connection, verb, query string, rows [][]any) (string, error) {
	switch verb {
	case "@type":
		return r.lastType, nil
	case "@killwait":
		return r.killWait(on, query)
	case "@closewait":
		return "", r.closeWait(name, on, query)
	case "@closeunread":
		on.closeUnread(query)
		return "", r.closed(name, on)
	case "@close", "@reset":
		// This driver has no call that resets a connection. A pool is told to close it.
		on.close()
		return "", r.closed(name, on)
	case "@begin", "@commit", "@rollback":
		return "", on.transaction(verb)
	case "@many":
		// This driver has no call for many rows: the statement has them all.
		values := []any{}
		places := []string{}
		for _, row := range rows {
			values = append(values, row...)
			places = append(places, "(?"+strings.Repeat(",?", len(row)-1)+")")
		}
		return on.exec(valuesForm.ReplaceAllString(query, strings.Join(places, ",")), values)
	case "", "@until", "@prepared":
		var values []any
		if len(rows) > 0 {
			values = rows[0]
		}
		if !withRows.MatchString(query) {
			return on.exec(query, values)
		}
		got, err := on.query(query, values)
		r.lastType = on.lastType
		return got, err
	}
	return "", &mistake{verb + " is no verb"}
}

func fits(got, wanted string) bool {
	switch {
	case wanted == "ok":
		return !strings.HasPrefix(got, "!")
	case wanted == "!":
		return strings.HasPrefix(got, "!")
	case strings.HasPrefix(wanted, "~"):
		return regexp.MustCompile("(?s)" + wanted[1:]).MatchString(got)
	}
	return got == wanted
}

func prepare() error {
	_ = mysql.SetLogger(&mysql.NopLogger{})
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/", os.Getenv("REMORA_QUEUE_SOCKET")))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("DROP DATABASE IF EXISTS " + database); err != nil {
		return err
	}
	_, err = db.Exec("CREATE DATABASE " + database + " CHARACTER SET utf8mb4")
	return err
}

func main() {
	fail := func(values ...any) {
		fmt.Fprintln(os.Stderr, values...)
		os.Exit(1)
	}
	text, err := os.ReadFile(steps)
	if err == nil {
		err = prepare()
	}
	if err != nil {
		fail(err)
	}
	all := &run{
		connections: map[string]*connection{}, tokens: map[string]string{}, answers: bufio.NewScanner(os.Stdin),
	}
	done := 0
	for at, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		err := all.step(strings.Split(line, "\t"))
		if err == errLeftOut {
			fmt.Fprintf(os.Stderr, "left out from line %d on: %v\n", at+1, err)
			break
		} else if err != nil {
			fail(fmt.Sprintf("steps.tsv:%d: %v", at+1, err))
		}
		done++
	}
	fmt.Fprintf(os.Stderr, "go-sql-driver: %d steps\n", done)
}
