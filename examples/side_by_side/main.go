// Ten tasks with Go. Run: go run examples/side_by_side/main.go TASK PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

var errNo = errors.New("no")

func ask(ctx context.Context, words string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		select {
		case <-ctx.Done():
			conn.Close()
		case <-answered:
		}
	}()
	fmt.Fprintln(conn, words)
	bytes, err := io.ReadAll(conn)
	answer := strings.TrimSpace(string(bytes))
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if answer == "no" {
		return "", errNo
	}
	return answer, err
}

func fib(number int) int {
	if number < 2 {
		return number
	}
	return fib(number-1) + fib(number-2)
}

// task: all
func all(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	answers := make([]string, 3)
	for number, words := range []string{"a 60", "b 40", "c 20"} {
		number, words := number, words
		group.Go(func() (err error) {
			answers[number], err = ask(ctx, words)
			return err
		})
	}
	err := group.Wait()
	fmt.Println(strings.Join(answers, " "))
	return err
}

// task: limit
func limit(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(5)
	answers := make([]string, 20)
	for number := range answers {
		number := number
		group.Go(func() (err error) {
			answers[number], err = ask(ctx, fmt.Sprint(number, " 20"))
			return err
		})
	}
	err := group.Wait()
	fmt.Println(len(answers))
	return err
}

// task: group
func group(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, words := range []string{"a 50000", "b 20 no"} {
		words := words
		group.Go(func() error {
			_, err := ask(ctx, words)
			return err
		})
	}
	fmt.Println(group.Wait())
	return nil
}

// task: timeout
func timeout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, words := range []string{"a 50000", "b 50000"} {
		words := words
		group.Go(func() error {
			_, err := ask(ctx, words)
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Println("late")
		return nil
	}
	return err
}

// task: settle
func settle(ctx context.Context) error {
	var group sync.WaitGroup
	outcomes := make([]string, 3)
	for number, words := range []string{"a 20", "b 20 no", "c 20"} {
		number, words := number, words
		group.Add(1)
		go func() {
			defer group.Done()
			answer, err := ask(ctx, words)
			if err != nil {
				answer = err.Error()
			}
			outcomes[number] = answer
		}()
	}
	group.Wait()
	fmt.Println(strings.Join(outcomes, " "))
	return nil
}

// task: rate
func limitRate(ctx context.Context) error {
	limiter := rate.NewLimiter(4, 1)
	group, ctx := errgroup.WithContext(ctx)
	answers := make([]string, 8)
	for number := range answers {
		number := number
		group.Go(func() (err error) {
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
			answers[number], err = ask(ctx, fmt.Sprint(number, " 500"))
			return err
		})
	}
	err := group.Wait()
	fmt.Println(len(answers))
	return err
}

// task: retry
func retry(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		answer, err := ask(ctx, "a 10 third")
		if err == nil {
			fmt.Println(answer)
			return nil
		}
		if attempt == 5 {
			return err
		}
		pause := float64(50*time.Millisecond<<(attempt-1)) * (1 - rand.Float64()/2)
		select {
		case <-time.After(time.Duration(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// task: shield
func shield(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error {
		whole := context.Background()
		if _, err := ask(whole, "a 100"); err != nil {
			return err
		}
		if _, err := ask(whole, "b 100"); err != nil {
			return err
		}
		_, err := ask(ctx, "c 100")
		return err
	})
	time.Sleep(50 * time.Millisecond)
	cancel()
	fmt.Println(errors.Is(group.Wait(), context.Canceled))
	return nil
}

// task: compute
func compute(ctx context.Context) error {
	var group sync.WaitGroup
	answers := []int{27, 26, 25, 24}
	for number := range answers {
		number := number
		group.Add(1)
		go func() {
			defer group.Done()
			answers[number] = fib(answers[number])
		}()
	}
	group.Wait()
	fmt.Println(strings.Trim(fmt.Sprint(answers), "[]"))
	return nil
}

// task: stop
func stop(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	for {
		select {
		case <-signals:
			time.AfterFunc(5*time.Second, cancel)
			go func() {
				<-signals
				cancel()
			}()
			return group.Wait()
		case <-time.After(50 * time.Millisecond):
			group.Go(func() error {
				answer, err := ask(ctx, "a 300")
				if err == nil {
					fmt.Println(answer)
				}
				return err
			})
		}
	}
}

// the end
func main() {
	tasks := map[string]func(context.Context) error{
		"all": all, "limit": limit, "group": group, "timeout": timeout, "settle": settle,
		"rate": limitRate, "retry": retry, "shield": shield, "compute": compute, "stop": stop,
	}
	if err := tasks[os.Args[1]](context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
