package tests

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

type book struct {
	mutex sync.Mutex
	told  []string
}

func (b *book) log() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *book) Write(line []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.told = append(b.told, string(line))
	return len(line), nil
}

func (b *book) lines() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return append([]string{}, b.told...)
}

func (b *book) has(text string) bool {
	return strings.Contains(strings.Join(b.lines(), ""), text)
}

type noted struct {
	mutex sync.Mutex
	all   []string
}

func (n *noted) add(format string, values ...any) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, values...))
}

func (n *noted) list() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return append([]string{}, n.all...)
}

func (n *noted) len() int { return len(n.list()) }
