package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"remoraqueue"
)

// What the examples of the README use.

type Order struct{ Number int }

type Page struct{ URL string }

// The examples. TestTheReadmeHasTheseExamples compares them.

type Mail struct{ To string }

func mail(ctx context.Context, db *sql.DB) error { // sql.Open("mysql", "shop@tcp(localhost)/shop")
	mails := remoraqueue.Must(remoraqueue.New[Mail]("mails", remoraqueue.Options{DB: db, Tries: 3}))
	if err := mails.Create(ctx, db); err != nil { // the tables mails and mails_dead, if they are not there
		return err
	}
	if _, err := mails.Put(ctx, db, Mail{To: "ann@example.org"}); err != nil {
		return err
	}
	worker := mails.Worker(func(ctx context.Context, job *remoraqueue.Job[Mail]) error {
		return fmt.Errorf("no such host: %s", job.Payload.To) // again in 10 seconds, then in 20; then in mails_dead
	}, remoraqueue.WorkerOptions{})
	ctx, stop := remoraqueue.Signals(ctx)
	defer stop()
	return worker.Run(ctx) // until SIGTERM
}

func order(ctx context.Context, db *sql.DB) error {
	orders := remoraqueue.Must(remoraqueue.New[Order]("go_readme_order.orders", remoraqueue.Options{Fifo: true}))
	if err := orders.Create(ctx, db); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO bought VALUES (7)"); err != nil {
		return err
	}
	message := remoraqueue.Message[Order]{Payload: Order{Number: 7}, Key: "ann", Delay: time.Second / 2}
	if _, err := orders.PutMessage(ctx, tx, message); err != nil {
		return err
	}
	return tx.Commit() // the order and its message are there, both or neither
}

func fetch(ctx context.Context, job *remoraqueue.Job[Page]) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, job.Payload.URL, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusTooManyRequests:
		return remoraqueue.RetryIn(time.Minute, "too many requests")
	}
	return errors.New(answer.Status)
}

func fetchAll(ctx context.Context, pages *remoraqueue.Queue[Page]) error {
	options := remoraqueue.WorkerOptions{Concurrency: 20, Lease: time.Minute}
	return pages.Worker(fetch, options).RunOnce(ctx)
}

func send(ctx context.Context, db *sql.DB, mails *remoraqueue.Queue[Mail]) (bool, error) {
	return mails.Take(ctx, db, func(ctx context.Context, job *remoraqueue.Job[Mail], tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO sent VALUES (?)", job.Payload.To)
		return err
	}, remoraqueue.TakeOptions{Wait: 5 * time.Second}) // false if none came
}

func TestTheReadmeHasTheseExamples(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(readme), "```go\n")[1:]
	if len(examples) != 4 {
		t.Fatal(len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		// The database is one of the tests.
		example = strings.Replace(example, `"shop.`, `"go_readme_order.`, 1)
		if !strings.Contains(string(source), "\n"+example+"\n") {
			t.Fatal(example)
		}
	}
}

func TestFromNothingToAJobThatIsTriedAgain(t *testing.T) {
	s := begin(t, "readme_nothing")
	readme, err := os.ReadFile("../README.md")
	s.must(err)
	_, section, _ := strings.Cut(string(readme), "## From nothing")
	_, commands, _ := strings.Cut(section, "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	begins, program, _ := strings.Cut(commands, "cat >")
	for _, line := range strings.Split(strings.TrimSpace(begins), "\n") {
		s.equal(strings.HasPrefix(line, "remora sandbox ") || strings.HasPrefix(line, "go "), true)
	}
	server := fmt.Sprintf("root@unix(%s)/%s", os.Getenv("REMORA_QUEUE_SOCKET"), s.database)
	program = "cat >" + strings.Replace(program, "root@tcp(127.0.0.1:3307)/shop", server, 1)
	s.equal(strings.Contains(program, "3307"), false)
	// Within this module, which has what it imports.
	folder, err := os.MkdirTemp(".", "nothing")
	s.must(err)
	defer os.RemoveAll(folder)
	run := exec.Command("bash", "-e", "-c", program)
	run.Dir = folder
	told, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(told), `try 2 after "no such host"`) {
		t.Fatal(err, string(told))
	}
}

func TestTheFirstLinesDoWhatTheySay(t *testing.T) {
	s := begin(t, "readme_mail")
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error)
	go func() { ended <- mail(ctx, s.db) }()
	s.until("a try has failed", func() bool {
		return slices.Equal(s.failures("mails"), []string{"1"})
	})
	// In ten seconds, and not at once.
	s.equal(s.leasedUntil("mails") > float64(time.Now().Unix()+5), true)
	cancel()
	s.must(within(s, "it stops", ended))
}

func TestAMessageAndAnOrder(t *testing.T) {
	s := begin(t, "readme_order")
	s.run("CREATE TABLE bought (n INT) ENGINE=InnoDB")
	s.must(order(s.ctx(), s.db))
	s.equal([]int{s.count("bought"), s.count("orders")}, []int{1, 1})
}

func TestAWorkerThatAsksAServer(t *testing.T) {
	s := begin(t, "readme_fetch")
	var asked noted
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		asked.add("%s", request.URL.Path)
		if request.URL.Path == "/busy" {
			answer.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	pages := made(s, "pages", remoraqueue.Options{DB: s.db}, Page{URL: server.URL + "/ok"}, Page{URL: server.URL + "/busy"})
	s.must(fetchAll(s.ctx(), pages))
	got := asked.list()
	slices.Sort(got)
	s.equal(got, []string{"/busy", "/ok"})
	s.equal(s.failures("pages"), []string{"1"})
}

func TestOneJobInATransaction(t *testing.T) {
	s := begin(t, "readme_send")
	s.run("CREATE TABLE sent (mail TEXT) ENGINE=InnoDB")
	mails := made(s, "mails", remoraqueue.Options{DB: s.db}, Mail{To: "ann@example.org"})
	came, err := send(s.ctx(), s.db, mails)
	s.must(err)
	s.equal(came, true)
	s.equal(s.rows("SELECT mail FROM sent"), []string{"ann@example.org"})
	s.equal(s.count("mails"), 0)
}
