// What the contestants in Go share; contestant.py says what they do.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	lanes = 8
	rated = 1_000_000_000
)

// payload is a job; BENCH_DONE is where it is recorded.
type payload struct {
	ID  int64  `json:"id"`
	Put int64  `json:"put"`
	Pad string `json:"pad"`
}

// Kind is its name for River.
func (payload) Kind() string { return "job" }

func now() int64 { return time.Now().UnixMicro() }

func payloadOf(id, put int64) payload { return payload{ID: id, Put: put, Pad: strings.Repeat("x", 80)} }

var done *os.File

func record(job payload) error {
	_, err := fmt.Fprintf(done, "%d %d %d\n", job.ID, job.Put, now())
	return err
}

// contestant is a queue. Fill puts many jobs, and work does jobs until it is killed.
type contestant interface {
	make(ctx context.Context) error
	fill(ctx context.Context, some []payload) error
	put(ctx context.Context, one payload) error
	work(ctx context.Context, workers int) error
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func fill(ctx context.Context, queue contestant, count int64) {
	for first := int64(0); first < count; first += 1000 {
		var some []payload
		for id := first; id < min(count, first+1000); id++ {
			some = append(some, payloadOf(id, now()))
		}
		must(queue.fill(ctx, some))
	}
}

func atRate(ctx context.Context, queue contestant, rate, count int64) {
	var all sync.WaitGroup
	for lane := range int64(lanes) {
		all.Go(func() { must(queue.put(ctx, payloadOf(lane, now()))) })
	}
	all.Wait()
	begin := now()
	for lane := range int64(lanes) {
		all.Go(func() {
			for job := lane; job < count; job += lanes {
				at := begin + job*1_000_000/rate
				time.Sleep(time.Duration(at-now()) * time.Microsecond)
				must(queue.put(ctx, payloadOf(rated+job, at)))
			}
		})
	}
	all.Wait()
}

func main() {
	ctx, address := context.Background(), os.Getenv("BENCH_ADDRESS")
	var queue contestant
	if os.Args[1] == "river" {
		queue = newRiver(ctx, address)
	} else {
		queue = newOurs(address)
	}
	var numbers []int64
	for _, word := range os.Args[3:] {
		number, err := strconv.ParseInt(word, 10, 64)
		must(err)
		numbers = append(numbers, number)
	}
	switch os.Args[2] {
	case "make":
		must(queue.make(ctx))
	case "fill":
		fill(ctx, queue, numbers[0])
	case "put":
		atRate(ctx, queue, numbers[0], numbers[1])
	case "work":
		var err error
		done, err = os.OpenFile(os.Getenv("BENCH_DONE"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		must(err)
		must(queue.work(ctx, int(numbers[0])))
	}
}
