// A worker with a pool: goroutines share a few connections, and keep none while they work.
//
//	worker-go [-threads N] [-once] DSN     -once: end when nothing waits
//
// DSN is that of github.com/go-sql-driver/mysql: root@unix(/path/to.sock)/shop
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

// For how many seconds a worker has a row, and how long it waits for one.
const (
	leaseSeconds = 3
	waitSeconds  = 1
)

// A message is a row that is leased.
type message struct {
	Token string          `json:"token"`
	Row   json.RawMessage `json:"row"`
}

// fence is a number that only grows. What a worker writes to can refuse one that is smaller than the last it saw.
func (m message) fence() (int64, error) {
	number := m.Token[strings.LastIndexByte(m.Token, ':')+1:]
	number, _, _ = strings.Cut(number, "-")
	return strconv.ParseInt(number, 10, 64)
}

// take leases up to so many rows. There are none if none came while it waited.
func take(db *sql.DB, queue string, rows int) ([]message, error) {
	var found sql.NullString
	query := "SELECT queue_lease_json(?, ?, ?, ?)"
	if err := db.QueryRow(query, leaseSeconds, rows, queue, waitSeconds).Scan(&found); err != nil {
		return nil, err
	}
	if !found.Valid {
		return nil, fmt.Errorf("%s can't be leased from: is it a queue?", queue)
	}
	var messages []message
	err := json.Unmarshal([]byte(found.String), &messages)
	return messages, err
}

// work does the work for one row. What fails is given back with its reason, and the queue decides when it comes
// again.
func work(db *sql.DB, m message, do func(json.RawMessage, int64) error) error {
	number, err := m.fence()
	if err != nil {
		return err
	}
	working, done := context.WithCancel(context.Background())
	var extending sync.WaitGroup
	extending.Add(1)
	go func() {
		defer extending.Done()
		for {
			select {
			case <-working.Done():
				return
			case <-time.After(time.Second * leaseSeconds / 3):
				// If it fails, another worker gets the row, and the number tells which one is late.
				if _, err := db.Exec("DO queue_extend(?, ?)", m.Token, leaseSeconds); err != nil {
					log.Print(err)
				}
			}
		}
	}()
	failed := do(m.Row, number)
	done()
	extending.Wait()
	if failed != nil {
		_, err = db.Exec("DO queue_nack(?, NULL, ?)", m.Token, failed.Error())
	} else {
		_, err = db.Exec("DO queue_ack(?)", m.Token)
	}
	return err
}

// resize is the work. A worker that stood still and comes back late changes nothing: the other one's number is
// higher.
func resize(db *sql.DB) func(json.RawMessage, int64) error {
	return func(row json.RawMessage, number int64) error {
		var job struct {
			ID int64 `json:"id"`
		}
		if err := json.Unmarshal(row, &job); err != nil {
			return err
		}
		_, err := db.Exec("INSERT INTO picture VALUES (?, ?, 1) ON DUPLICATE KEY UPDATE"+
			" times = times + (number < VALUES(number)), number = GREATEST(number, VALUES(number))", job.ID, number)
		return err
	}
}

func main() {
	threads := flag.Int("threads", 8, "how many rows are worked on at a time")
	once := flag.Bool("once", false, "end when nothing waits")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "worker-go [-threads N] [-once] DSN")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	db, err := sql.Open("mysql", flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(4)
	do := resize(db)
	var all sync.WaitGroup
	for range *threads {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				messages, err := take(db, "to_resize", 1)
				if err != nil {
					log.Fatal(err)
				}
				for _, m := range messages {
					if err := work(db, m, do); err != nil {
						log.Fatal(err)
					}
				}
				if *once && len(messages) == 0 {
					return
				}
			}
		}()
	}
	all.Wait()
}
