// Goclient asks an extender's filter as kube-scheduler does, for a while, and counts what fails, by kind.
//
// Every client is a scheduler of its own with the transport of HTTPExtender: idle connections kept for 90 s, default
// limits, a POST that nobody repeats, a status other than 200 is an error, the answer goes through a json.Decoder and
// the body is closed. tests/contract/test_extender_connections.py runs it and reads the JSON that it prints.
//
// A new connection goes to the address that stands in -address-file at that moment, as a Service sends new connections
// to other replicas. A request is never sent twice. It runs for -seconds, or until its stdin is closed. What it counted is
// printed then, and so far for each line that comes on stdin.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// report is what is printed at the end.
type report struct {
	Requests    int               `json:"requests"`
	Errors      map[string]int    `json:"errors"`      // by kind
	Examples    map[string]string `json:"examples"`    // one error text of each kind
	Connections map[string]int    `json:"connections"` // by address
	Serials     []string          `json:"serials"`     // of the server's certificates, in the order they were first seen
}

// tally collects from all clients.
type tally struct {
	sync.Mutex
	report
}

func (t *tally) note(err error) {
	t.Lock()
	defer t.Unlock()
	t.Requests++
	if err != nil {
		kind := kindOf(err)
		t.Errors[kind]++
		t.Examples[kind] = err.Error()
	}
}

// print writes what was counted until now as one line.
func (t *tally) print() {
	t.Lock()
	defer t.Unlock()
	json.NewEncoder(os.Stdout).Encode(t.report)
}

func main() {
	addressFile := flag.String("address-file", "", "file with HOST:PORT for new connections")
	scheme := flag.String("scheme", "http", "http or https")
	ca := flag.String("ca", "", "CA file of the server's certificate")
	certificate := flag.String("cert", "", "client certificate file")
	key := flag.String("key", "", "client key file")
	clients := flag.Int("clients", 8, "schedulers side by side, each with a connection of its own")
	perConnection := flag.Int("per-connection", 0, "close the connection after so many requests (0: keep it)")
	names := flag.Int("names", 3, "node names per request")
	seconds := flag.Float64("seconds", 600, "stop after")
	minGap := flag.Duration("min-gap", 0, "shortest pause between two requests of a client")
	maxGap := flag.Duration("max-gap", 0, "longest pause")
	seed := flag.Uint64("seed", 1, "seed of the pauses")
	flag.Parse()

	counted := &tally{report: report{Errors: map[string]int{}, Examples: map[string]string{}, Connections: map[string]int{}}}
	body := request(*names)
	end := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	var stop atomic.Bool
	go func() {
		for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
			counted.print()
		}
		stop.Store(true)
	}()
	var waiting sync.WaitGroup
	for number := range *clients {
		own, err := newScheduler(*scheme, *addressFile, files{*ca, *certificate, *key}, counted)
		if err != nil {
			log.Fatal(err)
		}
		waiting.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(number)))
			for asked := 1; !stop.Load() && time.Now().Before(end); asked++ {
				counted.note(own.filter(body, *names))
				if *perConnection > 0 && asked%*perConnection == 0 {
					own.client.CloseIdleConnections()
				}
				time.Sleep(between(random, *minGap, *maxGap))
			}
		})
	}
	waiting.Wait()
	counted.print()
}

func between(random *rand.Rand, shortest, longest time.Duration) time.Duration {
	if longest <= shortest {
		return shortest
	}
	return shortest + time.Duration(random.Int64N(int64(longest-shortest)))
}

func readAddress(path string) (string, error) {
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
