package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River. Workers learn of jobs by LISTEN, and jobs are completed many at a time. By default it
// fetches at most ten times a second: no more jobs than ten for each worker.
type riverQueue struct {
	pool *pgxpool.Pool
	// It only inserts.
	inserts *river.Client[pgx.Tx]
}

type worker struct {
	river.WorkerDefaults[payload]
}

func (worker) Work(_ context.Context, job *river.Job[payload]) error { return record(job.Args) }

func newRiver(ctx context.Context, folder string) contestant {
	pool, err := pgxpool.New(ctx, "host="+folder+" user=bench dbname=bench pool_max_conns=20")
	must(err)
	return riverQueue{pool, newClient(pool, river.Config{})}
}

func newClient(pool *pgxpool.Pool, config river.Config) *river.Client[pgx.Tx] {
	client, err := river.NewClient(riverpgxv5.New(pool), &config)
	must(err)
	return client
}

func (q riverQueue) make(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(q.pool), nil)
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (q riverQueue) fill(ctx context.Context, some []payload) error {
	var jobs []river.InsertManyParams
	for _, one := range some {
		jobs = append(jobs, river.InsertManyParams{Args: one})
	}
	_, err := q.inserts.InsertManyFast(ctx, jobs)
	return err
}

func (q riverQueue) put(ctx context.Context, one payload) error {
	_, err := q.inserts.Insert(ctx, one, nil)
	return err
}

func (q riverQueue) work(ctx context.Context, workers int) error {
	kinds := river.NewWorkers()
	river.AddWorker(kinds, worker{})
	client := newClient(q.pool, river.Config{
		FetchCooldown: river.FetchCooldownMin,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:       kinds,
	})
	must(client.Start(ctx))
	select {}
}
