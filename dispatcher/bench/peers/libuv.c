/*
 * libuv as a peer of event loops, timers and work: workloads by name, each one sample as JSON on standard output.
 *
 * libuv has no callbacks that are posted with an argument and none that run in the next iteration, so every program on
 * it brings queues of its own. Those here are what one writes: a list of jobs behind an idle handle, and a stack that
 * is pushed by compare-exchange and taken whole behind an async handle, with a node from malloc for each post.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

typedef void (*callback)(void *);

static uint64_t now_ns(clockid_t clock) {
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t wall_began, cpu_began;

static void begin(void) {
	cpu_began = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall_began = now_ns(CLOCK_MONOTONIC);
}

static void end(uint64_t ops, bool ok) {
	uint64_t wall = now_ns(CLOCK_MONOTONIC) - wall_began;
	uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
	printf("{\"ops\":%llu,\"wall_ns\":%llu,\"cpu_ns\":%llu,\"ok\":%s}\n", (unsigned long long)ops,
	       (unsigned long long)wall, (unsigned long long)cpu, ok ? "true" : "false");
	fflush(stdout);
}

static void *checked(void *memory) {
	if (memory == NULL)
		abort();
	return memory;
}

/* A loop with its queues. */

struct job {
	callback call;
	void *argument;
	struct job *next;
};

struct node {
	callback call;
	void *argument;
	struct node *next;
};

struct looper {
	uv_loop_t loop;
	uv_async_t async;
	uv_idle_t idle;
	struct job *first, **last;
	_Alignas(64) _Atomic(struct node *) posts;
};

static void run_jobs(uv_idle_t *idle) {
	struct looper *looper = idle->data;
	struct job *job = looper->first;
	looper->first = NULL;
	looper->last = &looper->first;
	while (job != NULL) {
		struct job *next = job->next;
		job->call(job->argument);
		job = next;
	}
	if (looper->first == NULL)
		uv_idle_stop(idle);
}

static void arm(struct looper *looper, struct job *job) {
	if (looper->first == NULL)
		uv_idle_start(&looper->idle, run_jobs);
	job->next = NULL;
	*looper->last = job;
	looper->last = &job->next;
}

static void run_posts(uv_async_t *async) {
	struct looper *looper = async->data;
	struct node *newest = atomic_exchange_explicit(&looper->posts, NULL, memory_order_acquire);
	struct node *oldest = NULL;
	while (newest != NULL) {
		struct node *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest != NULL) {
		struct node *node = oldest;
		oldest = node->next;
		node->call(node->argument);
		free(node);
	}
}

static void post(struct looper *looper, callback call, void *argument) {
	struct node *node = checked(malloc(sizeof *node));
	node->call = call;
	node->argument = argument;
	node->next = atomic_load_explicit(&looper->posts, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&looper->posts, &node->next, node, memory_order_release,
						      memory_order_relaxed))
		;
	if (node->next == NULL)
		uv_async_send(&looper->async);
}

static struct looper *new_looper(void) {
	struct looper *looper = checked(aligned_alloc(64, (sizeof *looper + 63) / 64 * 64));
	memset(looper, 0, sizeof *looper);
	looper->last = &looper->first;
	uv_loop_init(&looper->loop);
	uv_async_init(&looper->loop, &looper->async, run_posts);
	uv_idle_init(&looper->loop, &looper->idle);
	looper->async.data = looper->idle.data = looper;
	return looper;
}

static void stop(void *argument) {
	struct looper *looper = argument;
	uv_stop(&looper->loop);
}

static void run_looper(void *argument) {
	struct looper *looper = argument;
	uv_run(&looper->loop, UV_RUN_DEFAULT);
}

static struct looper *here, *there;
static uint64_t left, seen, total;

/* So many operations, or a part of them: to see that all works. */

static uint64_t part = 1;

static uint64_t scaled(uint64_t ops) {
	return ops < part ? 1 : ops / part;
}

/* L1: a job arms itself anew. */

static struct job chained;

static void chain(void *argument) {
	(void)argument;
	seen++;
	if (--left == 0)
		stop(here);
	else
		arm(here, &chained);
}

static void job_chain(void) {
	total = left = scaled(1000000);
	chained.call = chain;
	arm(here, &chained);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L1b: batches of a thousand jobs. */

#define BATCH 1000
static struct job batch[BATCH];

static void count(void *argument) {
	(void)argument;
	seen++;
}

static void arm_batch(void *argument) {
	(void)argument;
	if (left-- == 0) {
		stop(here);
		return;
	}
	for (int nth = 0; nth < BATCH; nth++)
		arm(here, &batch[nth]);
	arm(here, &chained);
}

static void job_batch(void) {
	left = scaled(5000);
	total = left * BATCH;
	for (int nth = 0; nth < BATCH; nth++)
		batch[nth].call = count;
	chained.call = arm_batch;
	arm(here, &chained);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L2: a post to the own loop posts the next. */

static void self_hop(void *argument) {
	seen++;
	if (--left == 0)
		stop(here);
	else
		post(here, self_hop, argument);
}

static void self_post(void) {
	total = left = scaled(1000000);
	post(here, self_hop, NULL);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L2b: batches of forty posts to the own loop. */

static void self_batch(void *argument) {
	if (argument != NULL)
		seen++;
	if (left-- == 0) {
		stop(here);
		return;
	}
	for (int nth = 1; nth < 40; nth++)
		post(here, count, NULL);
	post(here, self_batch, here);
}

static void post_batches(void) {
	left = scaled(50000);
	total = 40 * left;
	post(here, self_batch, NULL);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L3: two loops post to each other. */

static void hop(void *argument) {
	(void)argument;
	seen++;
	if (--left == 0) {
		post(here, stop, here);
		post(there, stop, there);
	} else {
		post(left % 2 == 0 ? here : there, hop, NULL);
	}
}

static void ping_pong(void) {
	uv_thread_t thread;
	total = scaled(200000);
	left = total * 2;
	there = new_looper();
	uv_thread_create(&thread, run_looper, there);
	post(here, hop, NULL);
	begin();
	run_looper(here);
	end(total, seen == total * 2);
	uv_thread_join(&thread);
}

/* L4: a callback of one loop posts a burst to another. */

static void finish_burst(void *argument) {
	(void)argument;
	stop(there);
	post(here, stop, here);
}

static void burst_from_here(void *argument) {
	(void)argument;
	for (uint64_t nth = 0; nth < total; nth++)
		post(there, count, NULL);
	post(there, finish_burst, NULL);
}

static void burst(void) {
	uv_thread_t thread;
	total = scaled(5000000);
	there = new_looper();
	uv_thread_create(&thread, run_looper, there);
	post(here, burst_from_here, NULL);
	begin();
	run_looper(here);
	end(total, seen == total);
	uv_thread_join(&thread);
}

/* L5, L6: work on one worker thread, the result back. */

static _Atomic uint64_t worked;

static void work(uv_work_t *request) {
	(void)request;
	atomic_fetch_add_explicit(&worked, 1, memory_order_relaxed);
}

static void work_done(uv_work_t *request, int status) {
	seen += status == 0;
	if (left > 0) {
		left--;
		uv_queue_work(&here->loop, request, work, work_done);
	} else if (seen == total) {
		stop(here);
	}
}

static void work_in_flight(uint64_t count, uint64_t flights) {
	total = scaled(count);
	flights = flights < total ? flights : total;
	left = total - flights;
	begin();
	for (uint64_t nth = 0; nth < flights; nth++)
		uv_queue_work(&here->loop, checked(malloc(sizeof(uv_work_t))), work, work_done);
	run_looper(here);
	end(total, seen == total && worked == total);
}

/* L7: a timer is armed and canceled; L7b: moved, among 100,000. */

static void never(uv_timer_t *timer) {
	(void)timer;
	abort();
}

static void arm_and_cancel(void) {
	uv_timer_t timer;
	total = scaled(5000000);
	uv_timer_init(&here->loop, &timer);
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		uv_timer_start(&timer, never, 1000000 + nth, 0);
		seen += (uint64_t)uv_is_active((uv_handle_t *)&timer);
		uv_timer_stop(&timer);
	}
	end(total, seen == total);
}

#define MANY 100000

static void move_among_many(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	uint64_t random = 88172645463325252ull;
	total = scaled(2000000);
	for (int nth = 0; nth < MANY; nth++) {
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], never, 1000000 + (uint64_t)nth, 0);
	}
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uv_timer_start(&timers[random % MANY], never, 1000000 + random % 1000000, 0);
	}
	end(total, uv_is_active((uv_handle_t *)&timers[0]));
}

/* L8: 100,000 timers that fall due within a second. */

static void fire(uv_timer_t *timer) {
	(void)timer;
	if (++seen == total)
		stop(here);
}

static void many_due(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	uint64_t random = 88172645463325252ull;
	total = scaled(MANY);
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], fire, random % 1000, 0);
	}
	run_looper(here);
	end(total, seen == total);
}

/* W1, L4b: a thread without a loop posts to one that has one. */

static void posts_from_outside(void) {
	uv_thread_t thread;
	total = scaled(2000000);
	there = new_looper();
	uv_thread_create(&thread, run_looper, there);
	begin();
	for (uint64_t nth = 0; nth < total; nth++)
		post(there, count, NULL);
	post(there, stop, there);
	uv_thread_join(&thread);
	end(total, seen == total);
}

/* W8b: timers that are due within a second, armed in scrambled order. */

static void scrambled_due(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	total = scaled(MANY);
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], fire, 300 + nth * 7919 % total * 1000 / total, 0);
	}
	run_looper(here);
	end(total, seen == total);
}

/* W10: what is queued behind a worker that is busy is canceled, and each is told so. */

static uv_sem_t entered, go;
static uint64_t told;

static void hold(uv_work_t *request) {
	(void)request;
	uv_sem_post(&entered);
	uv_sem_wait(&go);
}

static void count_told(uv_work_t *request, int status) {
	(void)request;
	told += status == UV_ECANCELED;
	if (++seen == total + 1)
		stop(here);
}

static void stop_with_pending(void) {
	total = scaled(1000000);
	uv_work_t *requests = checked(calloc(total + 1, sizeof *requests));
	uv_sem_init(&entered, 0);
	uv_sem_init(&go, 0);
	uv_queue_work(&here->loop, &requests[total], hold, count_told);
	uv_sem_wait(&entered);
	for (uint64_t nth = 0; nth < total; nth++)
		uv_queue_work(&here->loop, &requests[nth], work, count_told);
	begin();
	for (uint64_t nth = 0; nth < total; nth++)
		uv_cancel((uv_req_t *)&requests[nth]);
	uv_sem_post(&go);
	run_looper(here);
	end(total, told == total);
}

/* L6b: as W10, with the enqueuing in it. */

static void enqueue_and_cancel(void) {
	total = scaled(200000);
	uv_work_t *requests = checked(calloc(total + 1, sizeof *requests));
	uv_sem_init(&entered, 0);
	uv_sem_init(&go, 0);
	uv_queue_work(&here->loop, &requests[total], hold, count_told);
	uv_sem_wait(&entered);
	begin();
	for (uint64_t nth = 0; nth < total; nth++)
		uv_queue_work(&here->loop, &requests[nth], work, count_told);
	for (uint64_t nth = 0; nth < total; nth++)
		uv_cancel((uv_req_t *)&requests[nth]);
	uv_sem_post(&go);
	run_looper(here);
	end(total, told == total);
}

/* L7c: 100,000 timers are canceled in scrambled order. */

static void remove_timers(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	uint32_t *order = checked(calloc(MANY, sizeof *order));
	uint64_t random = 88172645463325252ull;
	total = scaled(MANY);
	for (uint32_t nth = 0; nth < total; nth++) {
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], never, 1000000 + nth, 0);
		order[nth] = nth;
	}
	for (uint64_t last = total - 1; last > 0; last--) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uint64_t other = random % (last + 1);
		uint32_t kept = order[last];
		order[last] = order[other];
		order[other] = kept;
	}
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		seen += (uint64_t)uv_is_active((uv_handle_t *)&timers[order[nth]]);
		uv_timer_stop(&timers[order[nth]]);
	}
	end(total, seen == total);
}

/* L10: two loops on threads of their own come and go. */

static _Atomic uint64_t answers;

static void answer(void *argument) {
	(void)argument;
	atomic_fetch_add(&answers, 1);
	uv_sem_post(&entered);
}

static void close_handle(uv_handle_t *handle, void *argument) {
	(void)argument;
	uv_close(handle, NULL);
}

static void lives(void) {
	total = scaled(2000);
	uv_sem_init(&entered, 0);
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		struct looper *loopers[2];
		uv_thread_t threads[2];
		for (int which = 0; which < 2; which++) {
			loopers[which] = new_looper();
			uv_thread_create(&threads[which], run_looper, loopers[which]);
			post(loopers[which], answer, NULL);
		}
		uv_sem_wait(&entered);
		uv_sem_wait(&entered);
		for (int which = 0; which < 2; which++) {
			post(loopers[which], stop, loopers[which]);
			uv_thread_join(&threads[which]);
			uv_walk(&loopers[which]->loop, close_handle, NULL);
			uv_run(&loopers[which]->loop, UV_RUN_DEFAULT);
			seen += uv_loop_close(&loopers[which]->loop) == 0;
			free(loopers[which]);
		}
	}
	end(total, answers == 2 * total && seen == 2 * total);
}

static void one_in_flight(void) {
	work_in_flight(100000, 1);
}

static void many_in_flight(void) {
	work_in_flight(500000, 64);
}

static const struct {
	const char *name;
	void (*run)(void);
	/* One worker, as each lane of a loop has; or two, as the other peers. */
	const char *workers;
} workloads[] = {
	{"L1", job_chain, "1"},
	{"L1b", job_batch, "1"},
	{"L2", self_post, "1"},
	{"L2b", post_batches, "1"},
	{"L3", ping_pong, "1"},
	{"L4", burst, "1"},
	{"L4b", posts_from_outside, "1"},
	{"L5", one_in_flight, "1"},
	{"L6", many_in_flight, "1"},
	{"L6b", enqueue_and_cancel, "1"},
	{"L7", arm_and_cancel, "1"},
	{"L7b", move_among_many, "1"},
	{"L7c", remove_timers, "1"},
	{"L8", many_due, "1"},
	{"L10", lives, "1"},
	{"W1", posts_from_outside, "1"},
	{"W8a", arm_and_cancel, "1"},
	{"W8b", scrambled_due, "1"},
	{"W9-1", one_in_flight, "2"},
	{"W9-64", many_in_flight, "2"},
	{"W10", stop_with_pending, "1"},
};

int main(int count_of_arguments, char **arguments) {
	if (count_of_arguments == 3)
		part = strtoull(arguments[2], NULL, 10);
	for (size_t nth = 0; count_of_arguments > 1 && part > 0 && nth < sizeof workloads / sizeof *workloads; nth++) {
		if (strcmp(arguments[1], workloads[nth].name) == 0) {
			setenv("UV_THREADPOOL_SIZE", workloads[nth].workers, 1);
			here = new_looper();
			workloads[nth].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: libuv-peer WORKLOAD [DIVISOR OF ITS OPERATIONS]\n");
	return 2;
}
