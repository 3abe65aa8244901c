// Client asks extenders as kube-scheduler does and reports how long they took and how often they failed.
//
// It behaves like HTTPExtender (k8s.io/kubernetes pkg/scheduler/extender.go, v1.36): one http.Client with the
// transport defaults of apimachinery (dial and TCP keep-alive 30 s, TLS handshake 10 s, idle connections kept 90 s), a
// POST of the marshalled ExtenderArgs with Content-Type application/json, no replays, any status but 200 is an error,
// the answer goes through a json.Decoder and the body is closed. `bench` runs it and reads the JSON that it prints.
//
//	client -target us=http://127.0.0.1:8900 -target reference=http://127.0.0.1:9000 -names FILE -pod FILE -count 500
//
// For every pod of a round each target is asked filter over `count` names in an order of the pod's own ("filter after a
// pause" where it is the round's first), prioritize over the names that passed (as the scheduler does), prioritize over
// names it was never asked about before ("cold"), and at last both about the first pod again, which the target has just
// placed ("again").
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

type target struct {
	name, url string
	caller    *caller
	series    map[string]*series
}

type targets []*target

func (t *targets) String() string { return fmt.Sprint(len(*t), " targets") }

func (t *targets) Set(text string) error {
	name, url, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%q: expected NAME=URL", text)
	}
	*t = append(*t, &target{name: name, url: strings.TrimRight(url, "/"), series: map[string]*series{}})
	return nil
}

type settings struct {
	targets       targets
	names         []string
	pod           map[string]any
	count         int
	rounds, calls int
	seed          uint64
	seconds       float64
	clients       int
	minGap        time.Duration
	maxGap        time.Duration
}

func main() {
	s := settings{}
	flag.Var(&s.targets, "target", "NAME=URL, several times")
	names := flag.String("names", "", "file with one node name per line")
	pod := flag.String("pod", "", "file with the pod to ask about (JSON); every call gives it a uid and name of its own")
	ca := flag.String("ca", "", "CA file for https targets")
	certificate := flag.String("cert", "", "client certificate file")
	key := flag.String("key", "", "client key file")
	timeout := flag.Duration("timeout", 5*time.Second, "httpTimeout")
	flag.IntVar(&s.count, "count", 500, "names per request")
	flag.IntVar(&s.rounds, "rounds", 10, "rounds; targets take turns in each")
	flag.IntVar(&s.calls, "calls", 100, "pods per round and target")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the orders of names")
	flag.Float64Var(&s.seconds, "seconds", 0, "if given: ask filter for so long instead, with -clients and gaps, and count errors")
	flag.IntVar(&s.clients, "clients", 1, "with -seconds: clients side by side, each with a connection of its own")
	flag.DurationVar(&s.minGap, "min-gap", 0, "with -seconds: shortest pause between two calls of a client")
	flag.DurationVar(&s.maxGap, "max-gap", 0, "with -seconds: longest pause")
	flag.Parse()
	debug.SetGCPercent(400) // our own collections are not what is measured
	s.names = strings.Fields(string(must(os.ReadFile(*names))))
	if err := json.Unmarshal(must(os.ReadFile(*pod)), &s.pod); err != nil {
		log.Fatalf("-pod: %v", err)
	}
	if s.count > len(s.names) {
		log.Fatalf("-count %d: the file has %d names", s.count, len(s.names))
	}
	files := tlsFiles{ca: *ca, certificate: *certificate, key: *key}
	for _, one := range s.targets {
		one.caller = must(newCaller(one.url, *timeout, files))
	}
	if s.seconds > 0 {
		s.load(*timeout, files)
	} else {
		s.compare()
	}
	s.report()
}

// compare asks the targets in turn, one call at a time; every target is asked the same questions.
func (s *settings) compare() {
	for round := range s.rounds {
		for _, one := range s.targets {
			random := rand.New(rand.NewPCG(s.seed, uint64(round)))
			for call := range s.calls {
				// Never one of an earlier run; lab/bench/answers.py stores pods of these names.
				id := fmt.Sprintf("%d-%d-%d-%d", s.seed, s.count, round, call)
				s.ask(one, random, id, call == 0, round == 0)
			}
		}
	}
}

// ask is one pod's scheduling cycle; the first round warms up and is not counted. The first request of a round comes
// after the other targets' turn, when processors hold nothing of this one any more: it is a series of its own.
func (s *settings) ask(one *target, random *rand.Rand, id string, paused, warming bool) {
	var passed filterResult
	first := "filter"
	if paused {
		first = "filter after a pause"
	}
	one.note(first, one.caller.post("filter", s.request(random, id), &passed), warming)
	names := []string{}
	if passed.NodeNames != nil {
		names = *passed.NodeNames
	}
	var scores []hostPriority
	again := must(json.Marshal(extenderArgs{Pod: s.podOf(id), NodeNames: &names}))
	one.note("prioritize", one.caller.post("prioritize", again, &scores), warming)
	one.note("prioritize cold", one.caller.post("prioritize", s.request(random, id+"-cold"), &scores), warming)
	passed = filterResult{}
	one.note("filter again", one.caller.post("filter", s.request(random, id), &passed), warming)
	if passed.NodeNames != nil {
		names = *passed.NodeNames
	}
	again = must(json.Marshal(extenderArgs{Pod: s.podOf(id), NodeNames: &names}))
	one.note("prioritize again", one.caller.post("prioritize", again, &scores), warming)
}

func (s *settings) request(random *rand.Rand, id string) []byte {
	chosen := make([]string, s.count)
	for at, index := range random.Perm(len(s.names))[:s.count] {
		chosen[at] = s.names[index]
	}
	return must(json.Marshal(extenderArgs{Pod: s.podOf(id), NodeNames: &chosen}))
}

func (s *settings) podOf(id string) map[string]any {
	pod := maps.Clone(s.pod)
	metadata := maps.Clone(pod["metadata"].(map[string]any))
	metadata["uid"], metadata["name"] = "bench-"+id, "bench-"+id
	pod["metadata"] = metadata
	return pod
}

func (t *target) note(verb string, seen outcome, warming bool) {
	if warming && seen.err == nil {
		return
	}
	if t.series[verb] == nil {
		t.series[verb] = &series{}
	}
	t.series[verb].add(seen)
}

func (s *settings) report() {
	all := map[string]map[string]summary{}
	for _, one := range s.targets {
		all[one.name] = map[string]summary{}
		for _, verb := range slices.Sorted(maps.Keys(one.series)) {
			all[one.name][verb] = one.series[verb].summary(one.caller.opened.Load())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
