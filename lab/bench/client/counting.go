package main

import (
	"slices"
	"time"
)

const firstErrors = 3

// series is what one verb of one target did.
type series struct {
	answered, decoded []time.Duration
	failed            int
	errors            []string
}

func (s *series) add(seen outcome) {
	if seen.err == nil {
		s.answered = append(s.answered, seen.answered)
		s.decoded = append(s.decoded, seen.decoded)
		return
	}
	s.failed++
	if len(s.errors) < firstErrors {
		s.errors = append(s.errors, seen.err.Error())
	}
}

// summary is what is printed: times in microseconds, to the last byte of the answer and until it is decoded.
type summary struct {
	Calls       int      `json:"calls"`
	Failed      int      `json:"failed"`
	Errors      []string `json:"errors"`
	Connections int64    `json:"connections"`
	P50         float64  `json:"p50_microseconds"`
	P99         float64  `json:"p99_microseconds"`
	Worst       float64  `json:"worst_microseconds"`
	DecodedP50  float64  `json:"decoded_p50_microseconds"`
	DecodedP99  float64  `json:"decoded_p99_microseconds"`
}

func (s *series) summary(connections int64) summary {
	slices.Sort(s.answered)
	slices.Sort(s.decoded)
	return summary{
		Calls: len(s.answered) + s.failed, Failed: s.failed, Errors: s.errors, Connections: connections,
		P50: quantile(s.answered, 0.5), P99: quantile(s.answered, 0.99), Worst: quantile(s.answered, 1),
		DecodedP50: quantile(s.decoded, 0.5), DecodedP99: quantile(s.decoded, 0.99),
	}
}

// quantile is the nearest rank of sorted durations, in microseconds.
func quantile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(share*float64(len(sorted)) + 0.5)
	return float64(sorted[min(max(rank-1, 0), len(sorted)-1)].Nanoseconds()) / 1000
}
